// Pictures of some kinds of values that come behind the first ones: tokens, long vectors.
export { Elements } from "./elements.tsx";
export { default as style } from "./style.css";
export { Thumb } from "./thumb.tsx";
export { Attended, TokenMarks } from "./tokens.tsx";
