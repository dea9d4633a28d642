// The Layer tab's Filters, and those beside its maps, as a room.
export { Filters } from "./filters.tsx";
export { SmallFilters } from "./small.tsx";
export { default as style } from "./style.css";
