// The icons: 16 px, stroke 1.4, round ends, in the text's colour.
import type { ComponentChildren } from "preact";

export function Icon({ children }: { children: ComponentChildren }) {
  return (
    <svg
      class="nbg-icon"
      viewBox="0 0 16 16"
      width="16"
      height="16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.4"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      {children}
    </svg>
  );
}

/** An icon made of paths, with optional line width and fill. */
export const PathIcon = (props: { d: string; strokeWidth?: number | undefined; fill?: string }) => (
  <Icon>
    <path d={props.d} stroke-width={props.strokeWidth} fill={props.fill} />
  </Icon>
);

export const LeftIcon = () => <PathIcon d="M10 3.5 5.5 8l4.5 4.5" />;
export const RightIcon = () => <PathIcon d="m6 3.5 4.5 4.5L6 12.5" />;
export const DownIcon = () => <PathIcon d="m4 6.2 4 4 4-4" />;
export const ArrowIcon = () => <PathIcon d="M1.5 8h13M10.5 4l4 4-4 4" />;
export const ProjectorIcon = () => <PathIcon d="M1.8 2.8h12.4v8H1.8zM8 10.8v2.6M5 13.4h6" />;
export const CheckIcon = () => <PathIcon d="m3.5 8.5 3 3 6-7" />;
export const CloseIcon = () => <PathIcon d="m4 4 8 8M12 4l-8 8" />;
export const UndoIcon = () => (
  <PathIcon d="M5.5 2.8 2.5 5.8l3 3M2.8 5.8h6.4a3.6 3.6 0 0 1 0 7.2H6" />
);
export const RedoIcon = () => (
  <PathIcon d="m10.5 2.8 3 3-3 3M13.2 5.8H6.8a3.6 3.6 0 0 0 0 7.2H10" />
);
export const CurveIcon = () => <PathIcon d="M1.8 10.5c2.4 0 3-6 6-6s3.8 6 6.4 6" />;
export const CodeIcon = () => <PathIcon d="M5.5 4.5 2 8l3.5 3.5M10.5 4.5 14 8l-3.5 3.5" />;
export const BracketsIcon = () => (
  <PathIcon d="M5 2.5H2.5v11H5M11 2.5h2.5v11H11M6 8h.1M8 8h.1M10 8h.1" />
);
export const ShuffleIcon = () => (
  <PathIcon d="M2 4.5h2.2c3.2 0 4.4 7 7.6 7H14M2 11.5h2.2c1.1 0 2-.8 2.7-1.9M9.1 6.4c.7-1.1 1.6-1.9 2.7-1.9H14M12.2 2.7 14 4.5l-1.8 1.8M12.2 9.7l1.8 1.8-1.8 1.8" />
);
export const StepIcon = () => <PathIcon d="M3.5 3.5v9L10 8zM12.5 3.5v9" />;
export const RestartIcon = () => <PathIcon d="M3 3v3.5h3.5M3.3 6.3a5.2 5.2 0 1 1-.4 3.2" />;
export const SaveIcon = () => <PathIcon d="M8 2.5v7.5M4.8 7 8 10.2 11.2 7M3 13.2h10" />;
export const PlayIcon = () => <PathIcon d="M5 3.2v9.6L12.6 8z" fill="currentColor" />;
export const PauseIcon = () => <PathIcon d="M5.4 3.4v9.2M10.6 3.4v9.2" strokeWidth={2.2} />;
export const DragHandleIcon = () => (
  <PathIcon d="M6 3.5v0M10 3.5v0M6 8v0M10 8v0M6 12.5v0M10 12.5v0" strokeWidth={2.2} />
);
export const CheckCircleIcon = () => (
  <Icon>
    <circle cx="8" cy="8" r="6.3" />
    <path d="m5.2 8.2 2 2 3.6-4.2" />
  </Icon>
);
export const AlertCircleIcon = () => (
  <Icon>
    <circle cx="8" cy="8" r="6.3" />
    <path d="M8 4.8v4M8 11.2v.1" />
  </Icon>
);
