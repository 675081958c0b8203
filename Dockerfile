# An image that serves an app: `docker build -t toolwright .`, then
# `docker run -p 8000:8000 -v "$PWD/my_app:/app:ro" -v data:/data -e TOOLWRIGHT_SECRET_KEYS=… -e OPENAI_API_KEY=… toolwright`.
# compose.yaml does the same beside Postgres. What is installed is requirements/server.txt, each file by its hash.
FROM python:3.13-slim-bookworm AS build
WORKDIR /build
RUN python -m venv /venv
COPY requirements/server.txt requirements/server.txt
RUN /venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements/server.txt
COPY pyproject.toml hatch_build.py mkdocs.yml README.md LICENSE ./
COPY src src
COPY docs docs
RUN /venv/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps .

FROM python:3.13-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /app --shell /usr/sbin/nologin toolwright \
    && install -d -o toolwright -g toolwright -m 0700 /data \
    && install -d -o toolwright -g toolwright /app
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    TOOLWRIGHT_DATABASE_URL=sqlite:////data/toolwright.db \
    TOOLWRIGHT_LOG_FORMAT=json
USER 10001
WORKDIR /app
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/live', timeout=4)"]
ENTRYPOINT ["toolwright"]
CMD ["serve", "app:app", "--host", "0.0.0.0", "--port", "8000"]
