// Local response normalisation: a number divided by a power of the sum of squares of neighbouring channels.
import type { Layer } from "../plan/schema.ts";
import { coordinates, element, flatIndex, type Tensor } from "./tensor.ts";

export interface ResponseNormTerms {
  /** The neighbouring channels, including the element's own. */
  readonly neighbours: readonly { readonly channel: number; readonly value: number }[];
  readonly input: number;
  readonly squareSum: number;
  readonly bias: number;
  /** The factor of the sum of squares: alpha over the number of channels. */
  readonly scale: number;
  readonly beta: number;
  readonly value: number;
}

export function responseNormTerms(root: Layer, x: Tensor, index: number): ResponseNormTerms {
  const given = (name: string, otherwise: number): number => {
    const value = root.attributes[name];
    return typeof value === "number" ? value : otherwise;
  };
  const size = given("size", 1);
  const at = coordinates(root.output_shape, index);
  const [image = 0, own = 0, ...pixel] = at;
  const first = own - given("before", Math.floor((size - 1) / 2));
  const neighbours = Array.from({ length: size }, (_, k) => first + k)
    .filter((channel) => channel >= 0 && channel < (x.shape[1] ?? 0))
    .map((channel) => ({
      channel,
      value: element(x.data, flatIndex(x.shape, [image, channel, ...pixel])),
    }));
  const squareSum = neighbours.reduce((sum, { value }) => sum + value * value, 0);
  const [bias, beta] = [given("bias", 1), given("beta", 0.75)];
  const scale = given("alpha", 1e-4) / size;
  const input = element(x.data, index);
  const value = input / (bias + scale * squareSum) ** beta;
  return { neighbours, input, squareSum, bias, scale, beta, value };
}
