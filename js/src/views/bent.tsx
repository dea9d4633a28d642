// What is said of bends outside of their own view: the room of bends draws it, once it is here.
import type * as bend from "./bend/room.ts";
import { roomOf } from "./rooms.tsx";

export const Bent = ({ layer }: { layer: string }) => {
  const Mark = roomOf<typeof bend>("bend")?.Mark;
  return Mark ? <Mark layer={layer} /> : null;
};

export const Bends = ({ part }: { part: "Pill" | "Word" | "Everywhere" }) => {
  const Part = roomOf<typeof bend>("bend")?.[part];
  return Part ? <Part /> : null;
};
