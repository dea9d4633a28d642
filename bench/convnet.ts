// ConvNetJS, which trains in plain JavaScript, one example at a time; a step here is a batch of examples.
import convnetjs from "convnetjs";
import type { Network, Trainer } from "./training.ts";

/** Reorders elements from row-major (channel, y, x) to a Vol's channels-last order. */
function reordered(values: Float32Array, channels: number): Float64Array {
  const pixels = values.length / channels;
  return Float64Array.from(values, (_, k) => {
    const channel = k % channels;
    return values[channel * pixels + (k - channel) / channels] as number;
  });
}

export function makeConvNet(network: Network, weights: Float32Array): Trainer {
  const [n, channels, height, width] = network.shape;
  const definitions: Record<string, unknown>[] = [
    { type: "input", out_sx: width, out_sy: height, out_depth: channels },
  ];
  for (const [k, { kind, weight, stride, padding }] of network.layers.entries()) {
    const activation = network.layers[k + 1]?.kind === "ReLU" ? { activation: "relu" } : {};
    const [outputs, , rows] = weight;
    if (kind === "Conv2d") {
      definitions.push({ type: "conv", sx: rows, filters: outputs, stride, pad: padding, ...activation });
    } else if (kind === "MaxPool2d") definitions.push({ type: "pool", sx: stride, stride });
    else if (kind === "Linear") definitions.push({ type: "softmax", num_classes: outputs });
    else if (kind !== "ReLU" && kind !== "Flatten") throw new Error(`ConvNetJS has no ${kind}`);
  }
  const net = new convnetjs.Net();
  const x = new convnetjs.Vol(width, height, channels, 0);
  let trainer: InstanceType<typeof convnetjs.Trainer>;
  return {
    async start() {
      net.makeLayers(definitions);
      const learning = net.layers.filter((layer) => layer.filters !== undefined);
      const given = network.layers.filter(({ weight }) => weight.length > 0);
      for (const [k, layer] of learning.entries()) {
        const { weight = [], offset = 0 } = given[k] ?? {};
        const each = weight.slice(1).reduce((a, b) => a * b, 1);
        // A flattened map has PyTorch's order: its channels are those of the preceding convolution.
        const depth = weight.length === 2 ? (given[k - 1]?.weight[0] ?? 1) : (weight[1] ?? 1);
        for (const [o, filter] of (layer.filters ?? []).entries()) {
          const from = offset + o * each;
          filter.w = reordered(weights.slice(from, from + each), depth);
        }
        const behind = offset + each * (weight[0] ?? 0);
        if (layer.biases !== undefined) {
          layer.biases.w = Float64Array.from(weights.slice(behind, behind + (weight[0] ?? 0)));
        }
      }
      trainer = new convnetjs.Trainer(net, {
        method: "sgd",
        learning_rate: network.rate,
        momentum: 0,
        batch_size: n,
      });
    },
    async train(batches) {
      let loss = 0;
      for (const { input, target } of batches) {
        loss = 0;
        const size = input.length / n;
        for (const [k, wanted] of target.entries()) {
          x.w = Float64Array.from(input.subarray(k * size, (k + 1) * size));
          loss += trainer.train(x, wanted).cost_loss / n;
        }
      }
      return loss;
    },
    close: () => undefined,
  };
}
