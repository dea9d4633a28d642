// Where the network begins and ends: its input and output, the largest pictures.

import type { ComponentProps } from "preact";
import { displayOf, imageShape } from "../network/display.ts";
import { describe, layerOf, type Network, type Stage } from "../network/network.ts";
import type { Value } from "../plan/schema.ts";
import { Bent } from "./bent.tsx";
import { useViews } from "./context.ts";
import { ImageRange } from "./image_range.tsx";
import { Shares } from "./overlay/classes.tsx";
import { Over } from "./overlay/over.tsx";
import { Picture, useEndSide } from "./picture.tsx";
import { InPython } from "./python.tsx";
import { broken, Parts } from "./stage.tsx";

/** Input or output pictures, one below the other where there are several. */
export function Endpoints(props: {
  values: readonly Value[];
  network: Network;
  side: number;
  word: string;
}) {
  const { values, network, side, word } = props;
  const { state } = useViews();
  const explain = (value: Value, channel: number): void => {
    state.selected.value = { layer: layerOf(network, value)?.name ?? value.key, channel };
    state.section.value = "explain";
    state.tab.value = "layer";
  };
  const many = values.length;
  const room = many > 1 ? (side - (many - 1) * 8) / many : side;
  const last = word === "Output" ? network.stages.at(-1) : undefined;
  return (
    <div class="nbg-stage nbg-end">
      <div class="nbg-shown">
        {values.map((value) => (
          <div class="nbg-image" key={value.key} data-layer={value.key}>
            <End
              value={value}
              width={side}
              height={room}
              top={word === "Output"}
              explain={(channel) => explain(value, channel)}
            />
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

/** Classes can lie over the input. */
function End(props: Omit<ComponentProps<typeof Picture>, "tile">) {
  const { value } = props;
  const least = Math.min(props.width, props.height);
  const side = useEndSide(value, least);
  const room = { width: (props.width * side) / least, height: (props.height * side) / least };
  const picture = <Picture {...props} {...room} tile={20} />;
  return displayOf(value).name === "classes" ? (
    <Over value={value} side={side}>
      {picture}
    </Over>
  ) : (
    picture
  );
}

function EndCaption(props: { value: Value; named: boolean; stage: Stage | undefined }) {
  const { value, named, stage } = props;
  const { state, network } = useViews();
  const { image, name } = displayOf(value);
  const batch = network.value?.batch ?? 1;
  const select = (layer: string): void => {
    state.selected.value = { layer, channel: null };
  };
  return (
    <>
      <span>
        {(named || value.kind === "input") && `${value.key} `}
        {imageShape(value)} <InPython layer={value.key} />
        <Bent layer={value.key} />
        {image && (
          <>
            {" · "}
            <ImageRange value={value} />
          </>
        )}
      </span>
      {name === "classes" && <Shares value={value} />}
      {value.kind === "input" && batch > 1 && !named && (
        <span>
          example {state.example.value + 1} of {batch}
        </span>
      )}
      {value.kind === "output" && stage !== undefined && !named && (
        <span>
          {broken(stage.title)} <Bent layer={stage.key} />
          <Parts stage={stage} shown={stage.key} select={select} word={describe} />
        </span>
      )}
    </>
  );
}
