// A message of a space, around what it says: who, when, what it answers, reactions, and what one can do with it.
const EMOJIS = ["👍", "❤️", "😄", "🎉", "👀", "✅"];

export default {
  props: { message: Object, streaming: Boolean },
  emits: ["react", "reply", "run", "edit", "erase"],
  data: () => ({ choosing: false }),
  methods: {
    glyph(name) {
      return Vue.h("i", { class: "material-icons", "aria-hidden": "true" }, name);
    },
    tool(icon, label, press, more = {}) {
      const button = { type: "button", class: "icon-action", "aria-label": label, title: label, onClick: press };
      return Vue.h("button", { ...button, ...more }, [this.glyph(icon)]);
    },
    react(emoji) {
      this.choosing = false;
      this.$emit("react", emoji);
    },
    emojis() {
      const h = Vue.h;
      const each = (emoji) =>
        h("button", { type: "button", class: "reaction", "aria-label": `React with ${emoji}`,
          onClick: () => this.react(emoji) }, emoji);
      return h("div", { class: "emojis", role: "group", "aria-label": "Reactions",
        onKeydown: (event) => { if (event.key === "Escape") this.choosing = false; } }, EMOJIS.map(each));
    },
    tools(message) {
      const choose = () => { this.choosing = !this.choosing; };
      const all = [this.tool("add_reaction", "React", choose, { "aria-expanded": String(this.choosing) })];
      if (!message.isCall) all.push(this.tool("reply", "Reply", () => this.$emit("reply")));
      if (message.byAgent) all.push(this.tool("timeline", "Show the run", () => this.$emit("run")));
      if (message.mayChange) {
        all.push(this.tool("edit", "Edit", () => this.$emit("edit")));
        all.push(this.tool("delete_outline", "Delete", () => this.$emit("erase")));
      }
      return Vue.h("div", { class: "tools" }, all);
    },
    reactions(message) {
      const each = (reaction) => Vue.h("button", {
        type: "button", class: ["reaction", { mine: reaction.mine }], title: reaction.who,
        "aria-label": `${reaction.emoji} by ${reaction.count}`, "aria-pressed": String(reaction.mine),
        onClick: () => this.$emit("react", reaction.emoji),
      }, `${reaction.emoji} ${reaction.count}`);
      return Vue.h("div", { class: "body reactions" }, message.reactions.map(each));
    },
  },
  render() {
    const h = Vue.h;
    const message = this.message;
    const by = [h("span", { class: "who" }, message.author)];
    if (message.byAgent) by.push(h("span", { class: "badge" }, "agent"));
    by.push(h("time", { class: "quiet small", datetime: message.at, key: message.at }));
    const body = [];
    if (message.parent) body.push(h("div", { class: "parent" }, message.parent));
    body.push(this.$slots.default?.());
    if (message.edited) body.push(h("span", { class: "quiet small" }, "edited"));
    return h("article", { class: ["message", { streaming: this.streaming }], "data-message": message.id }, [
      h("span", { class: ["face", { agent: message.byAgent }], "aria-hidden": "true" }, [...message.author][0]?.toUpperCase()),
      h("div", { class: "by" }, by),
      h("div", { class: "body" }, body),
      this.reactions(message),
      this.tools(message),
      this.choosing ? this.emojis() : null,
    ]);
  },
};
