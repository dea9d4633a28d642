// The Layer tab's Bend, and what other views show of bends, as a room.
import stack from "./stack.css";
import base from "./style.css";

export { Everywhere } from "./everywhere.tsx";
export { kit } from "./kit.ts";
export { pythonOf as linesOf } from "./lines.ts";
export { Mark, Pill, Word } from "./marks.tsx";
export { Lines } from "./python.tsx";
export { Tools } from "./tools.tsx";
export { BendView } from "./view.tsx";
export const style = `${base}\n${stack}`;
