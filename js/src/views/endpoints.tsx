// Where the network begins and ends: its input and output, the largest pictures.

import { displayOf, imageShape, type Network, type Stage } from "../network/network.ts";
import type { Value } from "../plan.ts";
import { useViews } from "./context.ts";
import { ImageRange } from "./maps.tsx";
import { Picture } from "./picture.tsx";
import { InPython } from "./python.tsx";
import { Parts } from "./stage.tsx";

/** Input or output pictures, one below the other where there are several. */
export function Endpoints(props: {
  values: readonly Value[];
  network: Network;
  side: number;
  word: string;
}) {
  const { values, network, side, word } = props;
  const many = values.length;
  const room = many > 1 ? (side - (many - 1) * 8) / many : side;
  const last = word === "Output" ? network.stages.at(-1) : undefined;
  return (
    <div class="nbg-stage nbg-end">
      <div class="nbg-shown">
        {values.map((value) => (
          <div class="nbg-image" key={value.key} data-layer={value.key}>
            <Picture value={value} width={side} height={room} tile={20} top={word === "Output"} />
          </div>
        ))}
      </div>
      <div class="nbg-caption">
        <strong class="nbg-name">{word}</strong>
        {values.map((value) => (
          <EndCaption key={value.key} value={value} named={many > 1} stage={last} />
        ))}
      </div>
    </div>
  );
}

function EndCaption(props: { value: Value; named: boolean; stage: Stage | undefined }) {
  const { value, named, stage } = props;
  const { state, network } = useViews();
  const { image } = displayOf(value);
  const batch = network.value?.batch ?? 1;
  const select = (layer: string): void => {
    state.selected.value = { layer, channel: null };
  };
  return (
    <>
      <span>
        {named ? `${value.key} ` : ""}
        {imageShape(value)} <InPython layer={value.key} />
        {image && (
          <>
            {" · "}
            <span class="nbg-keep">
              <ImageRange value={value} />
            </span>
          </>
        )}
      </span>
      {value.kind === "input" && batch > 1 && !named && (
        <span>
          example {state.example.value} of {batch}
        </span>
      )}
      {value.kind === "output" && stage !== undefined && !named && (
        <span>
          {stage.title} <Parts stage={stage} shown={stage.key} select={select} />
        </span>
      )}
    </>
  );
}
