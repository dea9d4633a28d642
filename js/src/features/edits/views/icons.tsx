// Icons that only bends have.
import { Icon } from "../../../views/icons.tsx";

export const Tick = () => (
  <Icon>
    <path d="m3.5 8.5 3 3 6-7" />
  </Icon>
);
export const Undo = () => (
  <Icon>
    <path d="M5.5 2.8 2.5 5.8l3 3M2.8 5.8h6.4a3.6 3.6 0 0 1 0 7.2H6" />
  </Icon>
);
export const Redo = () => (
  <Icon>
    <path d="m10.5 2.8 3 3-3 3M13.2 5.8H6.8a3.6 3.6 0 0 0 0 7.2H10" />
  </Icon>
);
export const Cross = () => (
  <Icon>
    <path d="m4 4 8 8M12 4l-8 8" />
  </Icon>
);
export const Handle = () => (
  <Icon>
    <path d="M6 3.5v0M10 3.5v0M6 8v0M10 8v0M6 12.5v0M10 12.5v0" stroke-width="2.2" />
  </Icon>
);
export const Wave = () => (
  <Icon>
    <path d="M1.8 10.5c2.4 0 3-6 6-6s3.8 6 6.4 6" />
  </Icon>
);
export const Code = () => (
  <Icon>
    <path d="M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5" />
  </Icon>
);
