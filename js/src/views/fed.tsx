// What the shell shows of sources: their room draws it, once it is here.
import { roomOf } from "./rooms.tsx";
import type * as sources from "./sources/room.ts";

export const Fed = ({ part }: { part: "Playing" | "Chosen" | "Drawer" }) => {
  const Part = roomOf<typeof sources>("sources")?.[part];
  return Part ? <Part /> : null;
};
