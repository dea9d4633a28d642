// Icons that only a training has.
import { Icon } from "../../../views/icons.tsx";

export const Pause = () => (
  <Icon>
    <path d="M5.5 3.5v9M10.5 3.5v9" stroke-width="2" />
  </Icon>
);
export const Play = () => (
  <Icon>
    <path d="M4.8 3.2v9.6L12.8 8z" />
  </Icon>
);
export const OneStep = () => (
  <Icon>
    <path d="M3.5 3.5v9L10 8zM12.5 3.5v9" />
  </Icon>
);
export const Back = () => (
  <Icon>
    <path d="M3 3v3.5h3.5M3.3 6.3a5.2 5.2 0 1 1-.4 3.2" />
  </Icon>
);
export const Down = () => (
  <Icon>
    <path d="m3.5 6 4.5 4.5L12.5 6" />
  </Icon>
);
export const Copy = () => (
  <Icon>
    <path d="M8 2.5v7.5M4.8 7 8 10.2 11.2 7M3 13.2h10" />
  </Icon>
);
