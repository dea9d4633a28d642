// The latent workbench.
import style from "./latent.css";

export { LatentPart } from "./part.tsx";
export { style };
