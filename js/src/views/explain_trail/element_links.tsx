// Links from an explanation to the elements that it reads, and the names of their layers and positions before a reshape
// to a row.

import type { ElementRef } from "../../explain/operand_elements.ts";
import { originAt, valueBeforeReshape } from "../../explain/origin.ts";
import { coordinates } from "../../explain/tensor.ts";
import { imageShapeText } from "../../network/display_kind.ts";
import type { Value } from "../../plan/schema.ts";
import { useViews } from "../context.ts";
import { explainElement, trailTo, usePositionText } from "./steps.ts";

/** The position of the explained value. */
interface ExplainedElement {
  readonly value: Value;
  readonly channel: number;
  readonly y: number;
  readonly x: number;
}

/** "inputs are features.3, 32×7×7": the value before it was reshaped to a row. */
export function ReshapeSourceNote({ elementRef }: { elementRef: ElementRef }) {
  const network = useViews().network.value;
  const source = network?.values.get(elementRef.key);
  if (network === null || source === undefined) return null;
  const value = valueBeforeReshape(network, source);
  if (value.key === source.key) return null;
  return (
    <>
      {" "}
      · inputs are {value.key}, {imageShapeText(value)}
    </>
  );
}

/** "channel 13, y 3, x 3": a link to an element that is read; `showsLayer` adds the layer's name. */
export function ElementLink({
  elementRef,
  explainedElement,
  showsLayer = false,
}: {
  elementRef: ElementRef;
  explainedElement: ExplainedElement;
  showsLayer?: boolean;
}) {
  const { state, network } = useViews();
  const { placeText, spotText } = usePositionText();
  const source = network.value?.values.get(elementRef.key);
  if (network.value === null || source === undefined) {
    const parameter = network.value?.parameters.get(elementRef.key);
    if (parameter === undefined) return null;
    const where = coordinates(parameter.shape, elementRef.index).join(", ");
    return (
      <span class="nbg-second">
        {elementRef.key}[{where}], a parameter
      </span>
    );
  }
  const origin = originAt(network.value, source, elementRef.index, Number.NaN);
  const words = showsLayer ? placeText(origin.value, origin) : spotText(origin.value, origin);
  return (
    <button
      type="button"
      class="nbg-from-where"
      title={`Explain it in ${origin.value.key}`}
      onClick={() =>
        explainElement(
          state,
          origin.value,
          origin,
          trailTo(state, explainedElement.value, explainedElement),
        )
      }
    >
      {words || origin.value.key}
    </button>
  );
}
