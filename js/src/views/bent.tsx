// What is said at a layer of bends, and of where a training went wrong: their rooms draw it, once they are here.
import type { Layer } from "../plan.ts";
import type * as bend from "./bend/room.ts";
import { roomOf } from "./rooms.tsx";
import type * as train from "./train/room.ts";

/** `layers`: all that a closed module stands for. */
export const Bent = (props: { layer: string; layers?: readonly Layer[] }) => {
  const Mark = roomOf<typeof bend>("bend")?.Mark;
  const Wrong = roomOf<typeof train>("train")?.Wrong;
  return (
    <>
      {Mark && <Mark {...props} />}
      {Wrong && <Wrong {...props} />}
    </>
  );
};

export const Bends = ({ part }: { part: "Pill" | "Word" | "Everywhere" }) => {
  const Part = roomOf<typeof bend>("bend")?.[part];
  return Part ? <Part /> : null;
};
