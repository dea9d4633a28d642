// Icons that only a teaching has.
import { Icon } from "../../../views/icons.tsx";

export const Cross = () => (
  <Icon>
    <path d="m4 4 8 8m0-8-8 8" />
  </Icon>
);
