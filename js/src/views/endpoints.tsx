// The two ends of the network: its input and output, drawn as the largest pictures.

import type { ComponentProps } from "preact";
import { displayStyle, imageShapeText } from "../network/display_kind.ts";
import { layerCaption, layerOf, type Network, type Stage } from "../network/network.ts";
import type { Value } from "../plan/schema.ts";
import { useViews } from "./context.ts";
import { EditBadgeSlot } from "./edit_badge_slot.tsx";
import { ImageRange } from "./image_range.tsx";
import { BlendedPicture } from "./overlay/blended_picture.tsx";
import { SegmentationLegend } from "./overlay/segmentation.tsx";
import { PythonBadge } from "./python_layers.tsx";
import { StageLayers, withWordBreaks } from "./stage.tsx";
import { useEndpointSide, ValuePicture } from "./value_picture.tsx";

/** Input or output pictures, stacked vertically if there are several. */
export function Endpoints(props: {
  values: readonly Value[];
  network: Network;
  side: number;
  label: string;
}) {
  const { values, network, side, label } = props;
  const { state } = useViews();
  const explain = (value: Value, channel: number): void => {
    state.selected.value = { layer: layerOf(network, value)?.name ?? value.key, channel };
    state.layerSection.value = "explain";
    state.tab.value = "layer";
  };
  const many = values.length;
  const room = many > 1 ? (side - (many - 1) * 8) / many : side;
  const last = label === "Output" ? network.stages.at(-1) : undefined;
  return (
    <div class="nbg-stage nbg-end">
      <div class="nbg-shown">
        {values.map((value) => (
          <div class="nbg-image" key={value.key} data-layer={value.key}>
            <EndpointPicture
              value={value}
              width={side}
              height={room}
              showTopValues={label === "Output"}
              explain={(channel) => explain(value, channel)}
            />
          </div>
        ))}
      </div>
      <div class="nbg-caption">
        <strong class="nbg-name">{label}</strong>
        {values.map((value) => (
          <EndpointCaption key={value.key} value={value} showsKey={many > 1} stage={last} />
        ))}
      </div>
    </div>
  );
}

/** The picture of one input or output; a class map can be overlaid on the input. */
function EndpointPicture(props: Omit<ComponentProps<typeof ValuePicture>, "minTileSide">) {
  const { value } = props;
  const least = Math.min(props.width, props.height);
  const side = useEndpointSide(value, least);
  const room = { width: (props.width * side) / least, height: (props.height * side) / least };
  const picture = <ValuePicture {...props} {...room} minTileSide={20} />;
  return displayStyle(value).name === "classes" ? (
    <BlendedPicture value={value} side={side}>
      {picture}
    </BlendedPicture>
  ) : (
    picture
  );
}

function EndpointCaption(props: { value: Value; showsKey: boolean; stage: Stage | undefined }) {
  const { value, showsKey, stage } = props;
  const { state, network } = useViews();
  const { isImage, name } = displayStyle(value);
  const batch = network.value?.batchSize ?? 1;
  const select = (layer: string): void => {
    state.selected.value = { layer, channel: null };
  };
  return (
    <>
      <span>
        {(showsKey || value.kind === "input") && `${value.key} `}
        {imageShapeText(value)} <PythonBadge layer={value.key} />
        <EditBadgeSlot layer={value.key} />
        {isImage && (
          <>
            {" · "}
            <ImageRange value={value} />
          </>
        )}
      </span>
      {name === "classes" && <SegmentationLegend value={value} />}
      {value.kind === "input" && batch > 1 && !showsKey && (
        <span>
          example {state.example.value + 1} of {batch}
        </span>
      )}
      {value.kind === "output" && stage !== undefined && !showsKey && (
        <span>
          {withWordBreaks(stage.title)} <EditBadgeSlot layer={stage.valueKey} />
          <StageLayers
            stage={stage}
            currentLayer={stage.valueKey}
            select={select}
            label={layerCaption}
          />
        </span>
      )}
    </>
  );
}
