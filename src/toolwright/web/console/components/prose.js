// What somebody says: its line breaks, code between fences, and links to the web. All of it is text for the browser.
const FENCE = /^```[^\n]*\n([\s\S]*?)(?:^```[ \t]*$|$(?![\s\S]))/gm;
const LINK = /https?:\/\/[^\s<>"'`\\]+[^\s<>"'`\\.,;:!?)\]}]/g;

function linked(text) {
  const pieces = [];
  let last = 0;
  for (const found of text.matchAll(LINK)) {
    if (found.index > last) pieces.push({ text: text.slice(last, found.index) });
    pieces.push({ text: found[0], url: found[0] });
    last = found.index + found[0].length;
  }
  if (last < text.length) pieces.push({ text: text.slice(last) });
  return pieces;
}

function parts(text) {
  const all = [];
  const say = (between) => {
    if (between.trim()) all.push({ pieces: linked(between.replace(/^\n+|\n+$/g, "")) });
  };
  let last = 0;
  for (const fence of text.matchAll(FENCE)) {
    say(text.slice(last, fence.index));
    all.push({ code: fence[1].replace(/\n+$/, "") });
    last = fence.index + fence[0].length;
  }
  say(text.slice(last));
  return all;
}

export default {
  props: { content: String },
  render() {
    const h = Vue.h;
    const drawn = parts(this.content ?? "").map((part) =>
      part.code !== undefined
        ? h("pre", { class: "code", tabindex: 0 }, [h("code", part.code)])
        : h("p", part.pieces.map((piece) =>
            piece.url
              ? h("a", { href: piece.url, target: "_blank", rel: "noopener noreferrer" }, piece.text)
              : piece.text,
          )),
    );
    return h("div", { class: "prose" }, drawn);
  },
};
