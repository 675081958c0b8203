#!/bin/sh
# PgBouncer of the next Debian release, with the libraries that it needs, in a folder: that of this one keeps no
# prepared statements. Nothing is installed.
set -eu
folder=$1
mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
site=$(apt-get indextargets --format '$(SITE)' | head -n 1)
keys=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb [signed-by=$keys] $site trixie main" > "$folder/sources.list"
get() {
  apt-get -qq -o Dir::Etc::SourceList="$folder/sources.list" -o Dir::Etc::SourceParts=/dev/null \
    -o Dir::State::Lists="$folder/lists" -o Dir::Cache="$folder/cache" -o Acquire::Languages=none \
    -o APT::Sandbox::User=root "$@"
}
get update
cd "$folder"
get download pgbouncer libc6 libcares2 libevent-2.1-7t64 libpam0g libssl3t64 libsystemd0 libaudit1 libcap-ng0 libcap2 \
  libgcrypt20 libgpg-error0 liblz4-1 liblzma5 libzstd1 zlib1g
for each in *.deb; do
  dpkg-deb -x "$each" root
done
rm -rf ./*.deb lists cache
