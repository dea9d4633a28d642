// The Layer tab's Filters, and those beside its maps, as a room.
export { Filters, SmallFilters } from "./filters.tsx";
export { default as style } from "./style.css";
