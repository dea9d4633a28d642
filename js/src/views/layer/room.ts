// The Layer tab with its maps; what other rooms show of a layer stands within it.
export { default as style } from "./style.css";
export { LayerView } from "./tab.tsx";
