// Icons that only sources have.
import { Icon } from "../../../views/icons.tsx";

export const PictureIcon = () => (
  <Icon>
    <path d="M2 2.5h12v11H2zM2.5 11.5l3.5-3.5 3 3 1.7-1.7 3 2.7" />
    <circle cx="10.6" cy="5.8" r="1.1" />
  </Icon>
);
export const CameraIcon = () => (
  <Icon>
    <path d="M1.8 4.2h8.4v7.6H1.8zM10.2 7.2l4-2.2v6l-4-2.2z" />
  </Icon>
);
export const FilmIcon = () => (
  <Icon>
    <path d="M2 3h12v10H2zM5 3v10M11 3v10M2 6.4h3M2 9.6h3M11 6.4h3M11 9.6h3" />
  </Icon>
);
export const PenIcon = () => (
  <Icon>
    <path d="m2.5 13.5.8-3.2 7.6-7.6 2.4 2.4-7.6 7.6zM9.4 4.2l2.4 2.4" />
  </Icon>
);
export const SetIcon = () => (
  <Icon>
    <path d="M2.2 2.2h4.6v4.6H2.2zM9.2 2.2h4.6v4.6H9.2zM2.2 9.2h4.6v4.6H2.2zM9.2 9.2h4.6v4.6H9.2z" />
  </Icon>
);
export const NoiseIcon = () => (
  <Icon>
    <path d="M1.5 8h2l1.5-4.5L7.5 13l2-8.5L11.2 8h3.3" />
  </Icon>
);
export const LatentIcon = () => (
  <Icon>
    <path d="M2.5 2v11.5H14M5.4 10.2v0M7 6.2v0M9.4 8.8v0M10.4 4.4v0M12.6 7v0" stroke-width="1.8" />
  </Icon>
);
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
