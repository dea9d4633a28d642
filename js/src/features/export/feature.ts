// Pictures and recordings of what is shown, as files.
import type { Feature } from "../feature.ts";
import { Keep } from "./views/keep.tsx";
import style from "./views/style.css";

export const exporting: Feature = { name: "export", slots: { barEnd: Keep }, styles: [style] };
