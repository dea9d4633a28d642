// The few icons: 16 px, stroke 1.4, round ends, in the text's colour.
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

export const Left = () => (
  <Icon>
    <path d="M10 3.5 5.5 8l4.5 4.5" />
  </Icon>
);
export const Right = () => (
  <Icon>
    <path d="m6 3.5 4.5 4.5L6 12.5" />
  </Icon>
);
export const Arrow = () => (
  <Icon>
    <path d="M1.5 8h13M10.5 4l4 4-4 4" />
  </Icon>
);
export const Screen = () => (
  <Icon>
    <path d="M1.8 2.8h12.4v8H1.8zM8 10.8v2.6M5 13.4h6" />
  </Icon>
);
export const Matches = () => (
  <Icon>
    <circle cx="8" cy="8" r="6.3" />
    <path d="m5.2 8.2 2 2 3.6-4.2" />
  </Icon>
);
export const Differs = () => (
  <Icon>
    <circle cx="8" cy="8" r="6.3" />
    <path d="M8 4.8v4M8 11.2v.1" />
  </Icon>
);
