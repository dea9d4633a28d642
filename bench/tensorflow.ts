// TensorFlow.js: the network as fused operators, in channels-last order as its kernels require.
import * as tf from "@tensorflow/tfjs-core";
import "@tensorflow/tfjs-backend-webgl";
import { setWasmPaths } from "@tensorflow/tfjs-backend-wasm";
import type { Peer } from "./peers.ts";

interface Constant {
  readonly shape: number[];
  readonly offset?: number;
  readonly values?: number[];
}

interface Node {
  readonly op: string;
  readonly inputs: string[];
  readonly output: string;
  readonly attributes: Record<string, unknown>;
}

interface Network {
  readonly input: string;
  readonly output: string;
  readonly shape: number[];
  readonly constants: Record<string, Constant>;
  readonly nodes: Node[];
}

type Values = Map<string, tf.Tensor>;
type Step = (values: Values) => void;
type Activation = "relu" | "relu6" | "linear" | "sigmoid";

setWasmPaths("/tfjs/");

const LAST = [0, 2, 3, 1];
const FIRST = [0, 3, 1, 2];

function reordered(shape: readonly number[], order: readonly number[]): number[] {
  return shape.length === 4 ? order.map((axis) => shape[axis] as number) : [...shape];
}

/** Transposes an array of rank 4. */
function transposed(
  data: Float32Array,
  shape: readonly number[],
  order: readonly number[],
): Float32Array {
  if (shape.length !== 4) return data;
  const [n = 0, a = 0, b = 0, c = 0] = reordered(shape, order);
  const strides = [1, 1, 1, 1];
  for (let k = 2; k >= 0; k -= 1) strides[k] = (strides[k + 1] as number) * (shape[k + 1] as number);
  const [sn = 0, sa = 0, sb = 0, sc = 0] = order.map((axis) => strides[axis] as number);
  const result = new Float32Array(data.length);
  let at = 0;
  for (let i = 0; i < n; i += 1) {
    for (let j = 0; j < a; j += 1) {
      for (let k = 0; k < b; k += 1) {
        for (let l = 0; l < c; l += 1) {
          result[at] = data[i * sn + j * sa + k * sb + l * sc] as number;
          at += 1;
        }
      }
    }
  }
  return result;
}

class Translator {
  readonly steps: Step[] = [];
  /** Values of rank 4 are stored channels-last. */
  readonly weights: tf.Tensor[] = [];
  private readonly uses = new Map<string, number>();
  private readonly skipped = new Set<Node>();
  private readonly network: Network;
  private readonly data: ArrayBuffer;
  private readonly ranks = new Map<string, number>();

  /** Whether an activation may be fused into the preceding node, whose own output then doesn't exist. */
  private readonly fuses: boolean;

  constructor(network: Network, data: ArrayBuffer, fuses: boolean) {
    this.network = network;
    this.data = data;
    this.fuses = fuses;
    for (const node of network.nodes) {
      for (const name of node.inputs) this.uses.set(name, (this.uses.get(name) ?? 0) + 1);
    }
    this.ranks.set(network.input, network.shape.length);
    for (const node of network.nodes) if (!this.skipped.has(node)) this.steps.push(this.step(node));
  }

  private numbers(name: string): number[] {
    const constant = this.network.constants[name];
    if (constant?.values === undefined) throw new Error(`${name} is not a list of numbers`);
    return constant.values;
  }

  private array(name: string): tf.Tensor {
    const constant = this.network.constants[name];
    if (constant === undefined) throw new Error(`${name} is no weight`);
    const size = constant.shape.reduce((a, b) => a * b, 1);
    const values =
      constant.offset === undefined
        ? Float32Array.from(constant.values ?? [])
        : new Float32Array(this.data, constant.offset, size);
    return tf.tensor(values, constant.shape);
  }

  private keep<T extends tf.Tensor>(make: () => T): T {
    const made = tf.tidy(make);
    this.weights.push(tf.keep(made));
    return made;
  }

  /** The fused activation: it follows a node and is the only consumer of its output. */
  private fused(node: Node): { activation: Activation; output: string } {
    const next = this.network.nodes.find((other) => other.inputs.includes(node.output));
    const alone = this.uses.get(node.output) === 1 && node.output !== this.network.output;
    let activation: Activation = "linear";
    if (this.fuses && alone && next !== undefined) {
      if (next.op === "Relu") activation = "relu";
      if (next.op === "Sigmoid") activation = "sigmoid";
      const six = next.op === "Clip" && this.numbers(next.inputs[2] ?? "")[0] === 6;
      if (six && this.numbers(next.inputs[1] ?? "")[0] === 0) activation = "relu6";
      if (activation !== "linear") {
        this.skipped.add(next);
        return { activation, output: next.output };
      }
    }
    return { activation, output: node.output };
  }

  private step(node: Node): Step {
    const [x = "", w = "", b = ""] = node.inputs;
    const a = node.attributes;
    const rank = this.ranks.get(x) ?? 4;
    const set = (output: string, make: (values: Values) => tf.Tensor, ranked = rank): Step => {
      this.ranks.set(output, ranked);
      return (values) => values.set(output, make(values));
    };
    const get = (values: Values, name: string) => {
      const found = values.get(name);
      if (found === undefined) throw new Error(`${name} was not computed`);
      return found;
    };
    switch (node.op) {
      case "Conv":
        return this.convolution(node, set, get);
      case "ConvTranspose": {
        const filter = this.keep(() => tf.transpose(this.array(w), [2, 3, 1, 0]) as tf.Tensor4D);
        const bias = b === "" ? undefined : this.keep(() => this.array(b));
        const strides = a.strides as [number, number];
        const padding = (a.pads as number[])[0] ?? 0;
        const [kh = 0, kw = 0, channels = 0] = filter.shape;
        const pad = padding === 0 ? "valid" : "same";
        return set(node.output, (values) => {
          const image = get(values, x) as tf.Tensor4D;
          const [n, h, width] = image.shape;
          const size = (length: number, k: number, s: number) =>
            (length - 1) * s + k - 2 * padding;
          const shape: [number, number, number, number] = [
            n,
            size(h, kh, strides[0]),
            size(width, kw, strides[1]),
            channels,
          ];
          const made = tf.conv2dTranspose(image, filter, shape, strides, pad);
          return bias === undefined ? made : tf.add(made, bias);
        });
      }
      case "Gemm": {
        const matrix = this.keep(() => (a.transB === 1 ? tf.transpose(this.array(w)) : this.array(w)));
        const bias = b === "" ? undefined : this.keep(() => this.array(b));
        const { activation, output } = this.fused(node);
        return set(output, (values) =>
          tf.fused.matMul({ a: get(values, x) as tf.Tensor2D, b: matrix, bias, activation }),
        );
      }
      case "MaxPool":
      case "AveragePool": {
        const size = a.kernel_shape as [number, number];
        const strides = a.strides as [number, number];
        const pad = (a.pads as number[] | undefined)?.[0] ?? 0;
        const pool = node.op === "MaxPool" ? tf.maxPool : tf.avgPool;
        return set(node.output, (v) => pool(get(v, x) as tf.Tensor4D, size, strides, pad));
      }
      case "GlobalAveragePool":
        return set(node.output, (values) => tf.mean(get(values, x), [1, 2], true));
      case "ReduceMean": {
        const axes = w === "" ? (a.axes as number[]) : this.numbers(w);
        const last = axes.map((axis) => [0, 3, 1, 2][(axis + rank) % rank] ?? axis);
        const keep = a.keepdims !== 0;
        const ranked = keep ? rank : rank - axes.length;
        return set(node.output, (v) => tf.mean(get(v, x), last, keep), ranked);
      }
      case "Relu":
        return set(node.output, (values) => tf.relu(get(values, x)));
      case "LeakyRelu":
        return set(node.output, (values) => tf.leakyRelu(get(values, x), a.alpha as number));
      case "Sigmoid":
        return set(node.output, (values) => tf.sigmoid(get(values, x)));
      case "Tanh":
        return set(node.output, (values) => tf.tanh(get(values, x)));
      case "Clip": {
        const [low = 0, high = 0] = [this.numbers(w)[0], this.numbers(b)[0]];
        return set(node.output, (values) => tf.clipByValue(get(values, x), low, high));
      }
      case "Add":
        return set(node.output, (values) => tf.add(get(values, x), get(values, w)));
      case "Concat":
        return set(node.output, (values) =>
          tf.concat(
            node.inputs.map((name) => get(values, name)),
            rank === 4 ? 3 : (a.axis as number),
          ),
        );
      case "Reshape":
      case "Flatten": {
        // Flattens to vectors only: channels-last values with more than one pixel are transposed back first.
        const shape = w === "" ? undefined : this.numbers(w);
        return set(
          node.output,
          (values) => {
            const given = get(values, x);
            const plain = given.rank === 4 ? tf.transpose(given, [0, 3, 1, 2]) : given;
            return tf.reshape(plain, shape ?? [given.shape[0] ?? 1, -1]);
          },
          shape?.length ?? 2,
        );
      }
      default:
        throw new Error(`${node.op} is not translated for TensorFlow.js`);
    }
  }

  private convolution(
    node: Node,
    set: (output: string, make: (values: Values) => tf.Tensor) => Step,
    get: (values: Values, name: string) => tf.Tensor,
  ): Step {
    const [x = "", w = "", b = ""] = node.inputs;
    const a = node.attributes;
    const groups = (a.group as number | undefined) ?? 1;
    const pads = (a.pads as number[] | undefined) ?? [0, 0, 0, 0];
    if (pads.some((p) => p !== pads[0])) throw new Error("uneven padding is not translated");
    const depthwise = groups > 1;
    const filter = this.keep(
      () => tf.transpose(this.array(w), depthwise ? [2, 3, 0, 1] : [2, 3, 1, 0]) as tf.Tensor4D,
    );
    if (depthwise && filter.shape[3] !== 1) throw new Error("grouped convolution not translated");
    const bias = b === "" ? undefined : this.keep(() => this.array(b));
    const { activation, output } = this.fused(node);
    const strides = (a.strides as [number, number] | undefined) ?? [1, 1];
    const call = depthwise ? tf.fused.depthwiseConv2d : tf.fused.conv2d;
    return set(output, (values) =>
      call({
        x: get(values, x) as tf.Tensor4D,
        filter,
        strides,
        pad: pads[0] ?? 0,
        dataFormat: "NHWC",
        bias,
        activation,
      }),
    );
  }
}

export async function makeTensorFlow(backend: string): Promise<Peer> {
  const network: Network = await (await fetch("/model/nodes.json")).json();
  const data = await (await fetch("/model/weights.bin")).arrayBuffer();
  let fused: Translator;
  let whole: Translator | undefined;
  let outputShape: number[] = [];
  const ready = new Map<Float32Array, Float32Array>();

  const forward = async (
    translator: Translator,
    input: Float32Array,
    all: boolean,
  ): Promise<Float32Array[]> => {
    await tf.setBackend(backend);
    const tensors = tf.tidy(() => {
      const values: Values = new Map();
      values.set(network.input, tf.tensor(input, reordered(network.shape, LAST)));
      for (const step of translator.steps) step(values);
      const result = values.get(network.output);
      if (result === undefined) throw new Error("the network has no output");
      outputShape = result.shape;
      return all ? [...values.values()] : [result];
    });
    const found: Float32Array[] = [];
    for (const tensor of tensors) found.push((await tensor.data()) as Float32Array);
    tf.dispose(tensors);
    return found;
  };

  return {
    async start() {
      await tf.setBackend(backend);
      await tf.ready();
      fused = new Translator(network, data, true);
    },
    prepare(input) {
      const found = ready.get(input) ?? transposed(input, network.shape, LAST);
      ready.set(input, found);
      return found;
    },
    restore: (output) => transposed(output, outputShape, FIRST),
    run: async (input) => (await forward(fused, input, false))[0] as Float32Array,
    async runAll(input) {
      await tf.setBackend(backend);
      whole ??= new Translator(network, data, false);
      return forward(whole, input, true);
    },
    close: () => tf.dispose([...(fused?.weights ?? []), ...(whole?.weights ?? [])]),
  };
}
