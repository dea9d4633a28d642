// Which number of which layer an input of a dense layer is, before it was flattened.
import { originAt, readBy } from "../../explain/origin.ts";
import { imageShape } from "../../network/display.ts";
import type { Layer, Value } from "../../plan.ts";
import { useViews } from "../context.ts";
import { goTo, spotText, stepsTo } from "./steps.ts";

interface Read {
  /** The number that is explained, and where it stands in the dense layer's output. */
  value: Value;
  channel: number;
  index: number;
  layer: Layer;
  /** What the layer reads. */
  source: Value;
}

function useOrigin({ layer, source, index }: Read, k: number) {
  const network = useViews().network.value;
  const read = readBy(layer, source, index, k);
  return network === null || read === null ? null : originAt(network, source, read, Number.NaN);
}

/** "inputs are features.3, 32×7×7": what they were before they were laid in a row. */
function LaidOut(props: Read) {
  const value = useOrigin(props, 0)?.value ?? props.source;
  if (value.key === props.source.key) return null;
  return (
    <>
      {" "}
      · inputs are {value.key}, {imageShape(value)}
    </>
  );
}

/** The k-th input, or of all what they are. */
export const ReadFrom = ({ k, ...read }: Read & { k: number | null }) =>
  k === null ? <LaidOut {...read} /> : <Input {...read} k={k} />;

/** "channel 13, y 3, x 3": an input, one click away. */
function Input(props: Read & { k: number }) {
  const { value, channel, k } = props;
  const { state, names } = useViews();
  const origin = useOrigin(props, k);
  if (origin === null) return null;
  return (
    <button
      type="button"
      class="nbg-from-where"
      title={`Explain it in ${origin.value.key}`}
      onClick={() => {
        goTo(state, origin.value, origin, stepsTo(state, value, { channel, y: 0, x: 0 }));
      }}
    >
      {spotText(origin.value, origin, names.value) || origin.value.key}
    </button>
  );
}
