// Export of pictures and recordings as files.
import type { Feature } from "../feature.ts";
import { SaveMenu } from "./views/save_menu.tsx";
import style from "./views/style.css";

export const exporting: Feature = { name: "export", slots: { barEnd: SaveMenu }, styles: [style] };
