// A loop in Python whose weights this page shows.
import { bytesOf } from "../../buffers.ts";
import type { Feature } from "../feature.ts";
import { Mirroring } from "./mirror.ts";
import { mirrorState } from "./state.ts";

export const mirror: Feature = {
  name: "mirror",
  state: mirrorState,
  run({ state, python }) {
    if (!("loops" in state)) return {}; // a page without training has no curve to show it with
    state.loops.value = (host, record) => new Mirroring(state, host, record);
    return {
      messages: {
        mirrored: (message, [buffer]) =>
          python?.advance(message, () => {
            const data = bytesOf(buffer);
            const found = data && state.mirroring.peek()?.(message, data);
            if (found !== undefined) state.rows.value = found;
            return found !== undefined;
          }),
      },
    };
  },
};
