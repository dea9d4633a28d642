// Mirror: the page follows the weights of a training loop in Python.
import { bytesOf } from "../../message_buffers.ts";
import type { Feature } from "../feature.ts";
import { mirrorState } from "./state.ts";
import { WeightFollower } from "./weight_follower.ts";

export const mirror: Feature = {
  name: "mirror",
  state: mirrorState,
  start({ state, python }) {
    if (!("createWeightFollower" in state)) return {}; // a page without training has no loss curve
    state.createWeightFollower.value = (host, record) => new WeightFollower(state, host, record);
    return {
      messages: {
        mirrorframe: (message, [buffer]) =>
          python?.applyRevision(message, () => {
            const data = bytesOf(buffer);
            const found = data && state.weightReceiver.peek()?.(message, data);
            if (found !== undefined) state.weightOverrides.value = found;
            return found !== undefined;
          }),
      },
    };
  },
};
