// Icons that only sources have.
import { Icon } from "../../../views/icons.tsx";
import { kindOf } from "../kinds.ts";
import type { Source } from "../records.ts";

/** That of a kind of source. */
export const KindIcon = ({ kind }: Pick<Source, "kind">) => {
  const { icon, iconLine } = kindOf({ kind });
  return (
    <Icon>
      <path d={icon} stroke-width={iconLine} />
    </Icon>
  );
};
export const ArrayIcon = () => (
  <Icon>
    <path d="M5 2.5H2.5v11H5M11 2.5h2.5v11H11M6 8h.1M8 8h.1M10 8h.1" />
  </Icon>
);
export const PlayIcon = () => (
  <Icon>
    <path d="M5 3.2v9.6L12.6 8z" fill="currentColor" />
  </Icon>
);
export const PauseIcon = () => (
  <Icon>
    <path d="M5.4 3.4v9.2M10.6 3.4v9.2" stroke-width="2.2" />
  </Icon>
);
export const ShuffleIcon = () => (
  <Icon>
    <path d="M2 4.5h2.2c3.2 0 4.4 7 7.6 7H14M2 11.5h2.2c1.1 0 2-.8 2.7-1.9M9.1 6.4c.7-1.1 1.6-1.9 2.7-1.9H14M12.2 2.7 14 4.5l-1.8 1.8M12.2 9.7l1.8 1.8-1.8 1.8" />
  </Icon>
);
export const DownIcon = () => (
  <Icon>
    <path d="m4 6.2 4 4 4-4" />
  </Icon>
);
export const CloseIcon = () => (
  <Icon>
    <path d="m4 4 8 8M12 4l-8 8" />
  </Icon>
);
