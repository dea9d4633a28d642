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

const isOrder = (a: readonly number[], b: readonly number[]) => a.join() === b.join();

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

const UNARY: Record<string, (x: tf.Tensor) => tf.Tensor> = {
  Erf: tf.erf,
  Relu: tf.relu,
  Sigmoid: tf.sigmoid,
  Tanh: tf.tanh,
};
const BINARY: Record<string, (a: tf.Tensor, b: tf.Tensor) => tf.Tensor> = {
  Add: tf.add,
  Div: tf.div,
  Mul: tf.mul,
};

/** Makes a tensor from the values so far. */
type Make = (values: Values) => tf.Tensor;

/**
 * Builds the network of TensorFlow.js's operators. Maps, which convolutions and pools take and give, are stored
 * channels-last; other values are stored as in the ONNX file.
 */
class Translator {
  readonly steps: Step[] = [];
  readonly weights: tf.Tensor[] = [];
  private readonly uses = new Map<string, number>();
  private readonly skipped = new Set<Node>();
  private readonly network: Network;
  private readonly data: ArrayBuffer;
  private readonly ranks = new Map<string, number>();
  private readonly channelsLast = new Set<string>();

  /** Whether a bias and an activation may be fused into the preceding node, whose own output then doesn't exist. */
  private readonly fuses: boolean;

  constructor(network: Network, data: ArrayBuffer, fuses: boolean) {
    this.network = network;
    this.data = data;
    this.fuses = fuses;
    for (const node of network.nodes) {
      for (const name of node.inputs) this.uses.set(name, (this.uses.get(name) ?? 0) + 1);
    }
    this.ranks.set(network.input, network.shape.length);
    if (network.shape.length === 4) this.channelsLast.add(network.input);
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

  private isConstant(name: string): boolean {
    return this.network.constants[name] !== undefined;
  }

  private rank(name: string): number {
    return this.ranks.get(name) ?? this.network.constants[name]?.shape.length ?? 4;
  }

  /** A value as it is stored. */
  private stored(name: string): Make {
    return (values) => {
      const found = values.get(name);
      if (found === undefined) throw new Error(`${name} was not computed`);
      return found;
    };
  }

  /** A value in the order of the ONNX file. */
  private plain(name: string): Make {
    if (this.isConstant(name)) {
      const kept = this.keep(() => this.array(name));
      return () => kept;
    }
    const get = this.stored(name);
    return this.channelsLast.has(name) ? (values) => tf.transpose(get(values), FIRST) : get;
  }

  /** A value of rank 4, or a constant that is broadcast to one, with its channels last. */
  private maps(name: string): Make {
    if (this.channelsLast.has(name)) return this.stored(name);
    const get = this.plain(name);
    if (!this.isConstant(name)) return (values) => tf.transpose(get(values), LAST);
    const shape = this.network.constants[name]?.shape ?? [];
    const padded = [...Array<number>(4 - shape.length).fill(1), ...shape];
    const kept = this.keep(() => tf.transpose(tf.reshape(this.array(name), padded), LAST));
    return () => kept;
  }

  private set(output: string, rank: number, isLast: boolean, make: Make): Step {
    this.ranks.set(output, rank);
    if (isLast) this.channelsLast.add(output);
    return (values) => {
      values.set(output, make(values));
    };
  }

  /** The only consumer of a node's output, if its own output need not exist. */
  private next(output: string): Node | undefined {
    const alone = this.uses.get(output) === 1 && output !== this.network.output;
    return this.fuses && alone
      ? this.network.nodes.find((other) => other.inputs.includes(output))
      : undefined;
  }

  /** The fused activation: it follows a node and is the only consumer of its output. */
  private fused(value: string): { activation: Activation; output: string } {
    const next = this.next(value);
    let activation: Activation = "linear";
    if (next !== undefined) {
      if (next.op === "Relu") activation = "relu";
      if (next.op === "Sigmoid") activation = "sigmoid";
      const six = next.op === "Clip" && this.numbers(next.inputs[2] ?? "")[0] === 6;
      if (six && this.numbers(next.inputs[1] ?? "")[0] === 0) activation = "relu6";
      if (activation !== "linear") {
        this.skipped.add(next);
        return { activation, output: next.output };
      }
    }
    return { activation, output: value };
  }

  /** An operator that computes each element by itself, in whichever order its operands are stored. */
  private elementwise(node: Node, make: (...operands: tf.Tensor[]) => tf.Tensor): Step {
    const values = node.inputs.filter((name) => !this.isConstant(name));
    const isLast = values.some((name) => this.channelsLast.has(name));
    const get = node.inputs.map((name) => (isLast ? this.maps(name) : this.plain(name)));
    const rank = Math.max(...node.inputs.map((name) => this.rank(name)));
    return this.set(node.output, rank, isLast, (v) => make(...get.map((one) => one(v))));
  }

  private step(node: Node): Step {
    const [x = "", w = "", b = ""] = node.inputs;
    const a = node.attributes;
    const rank = this.rank(x);
    const isLast = this.channelsLast.has(x);
    const unary = UNARY[node.op];
    const binary = BINARY[node.op];
    if (unary !== undefined) return this.elementwise(node, unary);
    if (binary !== undefined) return this.elementwise(node, binary);
    switch (node.op) {
      case "Conv":
        return this.convolution(node);
      case "ConvTranspose": {
        const filter = this.keep(() => tf.transpose(this.array(w), [2, 3, 1, 0]) as tf.Tensor4D);
        const bias = b === "" ? undefined : this.keep(() => this.array(b));
        const strides = a.strides as [number, number];
        const padding = (a.pads as number[])[0] ?? 0;
        const [kh = 0, kw = 0, channels = 0] = filter.shape;
        const pad = padding === 0 ? "valid" : "same";
        const get = this.maps(x);
        return this.set(node.output, 4, true, (values) => {
          const image = get(values) as tf.Tensor4D;
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
      case "Gemm":
        return this.product(node, a.transB === 1, b);
      case "MatMul": {
        if (this.isConstant(w)) return this.product(node, false, "");
        const [left, right] = [this.plain(x), this.plain(w)];
        return this.set(node.output, rank, false, (v) => tf.matMul(left(v), right(v)));
      }
      case "MaxPool":
      case "AveragePool": {
        const size = a.kernel_shape as [number, number];
        const strides = a.strides as [number, number];
        const pad = (a.pads as number[] | undefined)?.[0] ?? 0;
        const pool = node.op === "MaxPool" ? tf.maxPool : tf.avgPool;
        const get = this.maps(x);
        return this.set(node.output, 4, true, (v) =>
          pool(get(v) as tf.Tensor4D, size, strides, pad),
        );
      }
      case "BatchNormalization": {
        const [, , , mean = "", variance = ""] = node.inputs;
        const factor = this.keep(() =>
          tf.mul(this.array(w), tf.rsqrt(tf.add(this.array(variance), a.epsilon as number))),
        );
        const shift = this.keep(() => tf.sub(this.array(b), tf.mul(this.array(mean), factor)));
        const get = this.maps(x);
        return this.set(node.output, 4, true, (v) => tf.add(tf.mul(get(v), factor), shift));
      }
      case "LayerNormalization": {
        const [scale, shift] = [this.plain(w), this.plain(b)];
        const get = this.plain(x);
        return this.set(node.output, rank, false, (v) => {
          const given = get(v);
          const centred = tf.sub(given, tf.mean(given, -1, true));
          const variance = tf.mean(tf.square(centred), -1, true);
          const factor = tf.rsqrt(tf.add(variance, a.epsilon as number));
          return tf.add(tf.mul(tf.mul(centred, factor), scale(v)), shift(v));
        });
      }
      case "LeakyRelu":
        return this.elementwise(node, (given) => tf.leakyRelu(given, a.alpha as number));
      case "Clip": {
        const [low = 0, high = 0] = [this.numbers(w)[0], this.numbers(b)[0]];
        const get = this.stored(x);
        return this.set(node.output, rank, isLast, (v) => tf.clipByValue(get(v), low, high));
      }
      case "Softmax": {
        const get = this.plain(x);
        return this.set(node.output, rank, false, (v) => tf.softmax(get(v), a.axis as number));
      }
      case "GlobalAveragePool": {
        const get = this.maps(x);
        return this.set(node.output, 4, true, (values) => tf.mean(get(values), [1, 2], true));
      }
      case "ReduceMean": {
        const axes = (w === "" ? (a.axes as number[]) : this.numbers(w)).map(
          (axis) => (axis + rank) % rank,
        );
        const keep = a.keepdims !== 0;
        const own = isLast ? axes.map((axis) => FIRST[axis] as number) : axes;
        const get = this.stored(x);
        const ranked = keep ? rank : rank - axes.length;
        return this.set(node.output, ranked, isLast && keep, (v) => tf.mean(get(v), own, keep));
      }
      case "Transpose": {
        const order = a.perm as number[];
        const become = rank === 4 && isOrder(order, isLast ? LAST : FIRST);
        const get = become ? this.stored(x) : this.plain(x);
        return this.set(node.output, rank, become && !isLast, (v) =>
          become ? tf.clone(get(v)) : tf.transpose(get(v), order),
        );
      }
      case "Slice": {
        const [, , ends = "", axes = ""] = node.inputs;
        const axis = this.numbers(axes)[0] ?? 0;
        const [start = 0, end = 0] = [this.numbers(w)[0], this.numbers(ends)[0]];
        const get = this.plain(x);
        return this.set(node.output, rank, false, (v) => {
          const given = get(v);
          const begin = given.shape.map((_, k) => (k === axis ? start : 0));
          const size = given.shape.map((n, k) => (k === axis ? Math.min(end, n) - start : n));
          return tf.slice(given, begin, size);
        });
      }
      case "Gather": {
        const chosen = this.network.constants[w];
        const [axis, get] = [a.axis as number, this.plain(x)];
        const indices = this.keep(() => tf.tensor(this.numbers(w), chosen?.shape, "int32"));
        const ranked = rank - 1 + (chosen?.shape.length ?? 0);
        return this.set(node.output, ranked, false, (v) => tf.gather(get(v), indices, axis));
      }
      case "Squeeze": {
        const axes = this.numbers(w);
        const get = this.plain(x);
        return this.set(node.output, rank - axes.length, false, (v) => tf.squeeze(get(v), axes));
      }
      case "Concat": {
        const lasts = node.inputs.every((name) => this.channelsLast.has(name));
        const get = node.inputs.map((name) => (lasts ? this.stored(name) : this.plain(name)));
        const axis = lasts ? (FIRST[a.axis as number] as number) : (a.axis as number);
        return this.set(node.output, rank, lasts, (v) => tf.concat(get.map((one) => one(v)), axis));
      }
      case "Reshape":
      case "Flatten": {
        const shape = w === "" ? undefined : this.numbers(w);
        const get = this.plain(x);
        return this.set(node.output, shape?.length ?? 2, false, (values) => {
          const given = get(values);
          return tf.reshape(given, shape ?? [given.shape[0] ?? 1, -1]);
        });
      }
      default:
        throw new Error(`${node.op} is not translated for TensorFlow.js`);
    }
  }

  /** Rows of a value of any rank times a matrix, with a bias that is given or follows. */
  private product(node: Node, isTransposed: boolean, given: string): Step {
    const [x = "", w = ""] = node.inputs;
    const matrix = this.keep(() =>
      isTransposed ? tf.transpose(this.array(w)) : this.array(w),
    ) as tf.Tensor2D;
    let output = node.output;
    let name = given;
    const after = name === "" ? this.next(output) : undefined;
    const other = after?.inputs.find((one) => one !== output) ?? "";
    const vector = this.network.constants[other]?.shape;
    if (after?.op === "Add" && vector?.length === 1 && vector[0] === matrix.shape[1]) {
      this.skipped.add(after);
      name = other;
      output = after.output;
    }
    const bias = name === "" ? undefined : this.keep(() => this.array(name));
    const fused = this.fused(output);
    const get = this.plain(x);
    return this.set(fused.output, this.rank(x), false, (values) => {
      const rows = get(values);
      const flat = tf.reshape(rows, [-1, matrix.shape[0]]) as tf.Tensor2D;
      const made = tf.fused.matMul({ a: flat, b: matrix, bias, activation: fused.activation });
      return tf.reshape(made, [...rows.shape.slice(0, -1), matrix.shape[1]]);
    });
  }

  private convolution(node: Node): Step {
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
    const { activation, output } = this.fused(node.output);
    const strides = (a.strides as [number, number] | undefined) ?? [1, 1];
    const call = depthwise ? tf.fused.depthwiseConv2d : tf.fused.conv2d;
    const get = this.maps(x);
    return this.set(output, 4, true, (values) =>
      call({
        x: get(values) as tf.Tensor4D,
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
