// A message of a space, around what it says: who, when, what it answers, reactions, and what one can do with it.
const EMOJIS = ["👍", "❤️", "😄", "🎉", "👀", "✅"];

export default {
  props: { said: Object, streaming: Boolean },
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
    tools(said) {
      const choose = () => { this.choosing = !this.choosing; };
      const all = [this.tool("add_reaction", "React", choose, { "aria-expanded": String(this.choosing) })];
      if (!said.isCall) all.push(this.tool("reply", "Reply", () => this.$emit("reply")));
      if (said.byAgent) all.push(this.tool("timeline", "Its run", () => this.$emit("run")));
      if (said.mayChange) {
        all.push(this.tool("edit", "Edit", () => this.$emit("edit")));
        all.push(this.tool("delete_outline", "Delete", () => this.$emit("erase")));
      }
      return Vue.h("div", { class: "tools" }, all);
    },
    reactions(said) {
      const each = (reaction) => Vue.h("button", {
        type: "button", class: ["reaction", { mine: reaction.mine }], title: reaction.who,
        "aria-label": `${reaction.emoji} by ${reaction.count}`, "aria-pressed": String(reaction.mine),
        onClick: () => this.$emit("react", reaction.emoji),
      }, `${reaction.emoji} ${reaction.count}`);
      return Vue.h("div", { class: "body reactions" }, said.reactions.map(each));
    },
  },
  render() {
    const h = Vue.h;
    const said = this.said;
    const by = [h("span", { class: "who" }, said.author)];
    if (said.byAgent) by.push(h("span", { class: "badge" }, "agent"));
    by.push(h("time", { class: "quiet small", datetime: said.at, key: said.at }));
    const body = [];
    if (said.parent) body.push(h("div", { class: "parent" }, said.parent));
    body.push(this.$slots.default?.());
    if (said.edited) body.push(h("span", { class: "quiet small" }, "edited"));
    return h("article", { class: ["message", { streaming: this.streaming }], "data-message": said.id }, [
      h("span", { class: ["face", { agent: said.byAgent }], "aria-hidden": "true" }, [...said.author][0]?.toUpperCase()),
      h("div", { class: "by" }, by),
      h("div", { class: "body" }, body),
      this.reactions(said),
      this.tools(said),
      this.choosing ? this.emojis() : null,
    ]);
  },
};
