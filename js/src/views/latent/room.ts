// The latent workbench.
import style from "./latent.css";

export { style };
