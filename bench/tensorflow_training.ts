// TensorFlow.js's training loop as documented: an optimizer minimizes the return value of a function. The layers are
// built from the network's operators, with variables for weights.
import "@tensorflow/tfjs-core/dist/register_all_gradients";
import "@tensorflow/tfjs-backend-webgl";
import * as tf from "@tensorflow/tfjs-core";
import type { Layer, Network, Trainer } from "./training.ts";

type Step = (x: tf.Tensor) => tf.Tensor;

/** PyTorch's weights as a variable, with the axes permuted. */
function variable(
  weights: Float32Array,
  offset: number,
  shape: number[],
  order?: number[],
): tf.Variable {
  const size = shape.reduce((a, b) => a * b);
  const values = weights.slice(offset, offset + size);
  return tf.tidy(() => {
    const given = tf.tensor(values, shape);
    return tf.variable(order === undefined ? given : tf.transpose(given, order));
  });
}

function stepOf(
  layer: Layer,
  weights: Float32Array,
  activation: "relu" | "linear",
  variables: tf.Variable[],
): Step {
  const { kind, weight, offset, stride, padding } = layer;
  const keep = (...made: tf.Variable[]) => {
    variables.push(...made);
    return made;
  };
  const behind = offset + weight.reduce((a, b) => a * b, 1);
  switch (kind) {
    case "Conv2d": {
      const [filter, bias] = keep(
        variable(weights, offset, weight, [2, 3, 1, 0]),
        variable(weights, behind, [weight[0] as number]),
      ) as [tf.Tensor4D & tf.Variable, tf.Variable];
      return (x) =>
        tf.fused.conv2d({
          x: x as tf.Tensor4D,
          filter,
          strides: stride,
          pad: padding,
          bias,
          activation,
        });
    }
    case "ConvTranspose2d": {
      const channels = weight[1] as number;
      const [filter, bias] = keep(
        variable(weights, offset, weight, [2, 3, 1, 0]),
        variable(weights, behind, [channels]),
      ) as [tf.Tensor4D & tf.Variable, tf.Variable];
      return (x) => {
        const [n = 0, h = 0, w = 0] = x.shape;
        const shape: [number, number, number, number] = [n, h * stride, w * stride, channels];
        const y = tf.conv2dTranspose(x as tf.Tensor4D, filter, shape, stride, "same");
        const sum = tf.add(y, bias);
        return activation === "relu" ? tf.relu(sum) : sum;
      };
    }
    case "Linear": {
      const [matrix, bias] = keep(
        variable(weights, offset, weight, [1, 0]),
        variable(weights, behind, [weight[0] as number]),
      ) as [tf.Tensor2D & tf.Variable, tf.Variable];
      return (x) => tf.fused.matMul({ a: x as tf.Tensor2D, b: matrix, bias, activation });
    }
    case "MaxPool2d":
      return (x) => tf.maxPool(x as tf.Tensor4D, stride, stride, "valid");
    case "Flatten":
      return (x) => tf.reshape(tf.transpose(x, [0, 3, 1, 2]), [x.shape[0] as number, -1]);
    case "Sigmoid":
      return tf.sigmoid;
    default:
      throw new Error(`${kind} is not translated for TensorFlow.js`);
  }
}

export function makeTensorFlowTrainer(network: Network, weights: Float32Array): Trainer {
  const variables: tf.Variable[] = [];
  const [n, channels, height, width] = network.shape;
  let steps: Step[] = [];
  let optimizer: tf.SGDOptimizer;

  const forward = (input: Float32Array) => {
    if (channels !== 1) throw new Error("one channel is expected: channels last lie alike then");
    return steps.reduce(
      (x, step) => step(x),
      tf.tensor4d(input, [n, height, width, channels]) as tf.Tensor,
    );
  };
  const lossOf = (output: tf.Tensor, target: Float32Array): tf.Scalar => {
    if (network.loss === "mse") {
      return tf.losses.meanSquaredError(tf.tensor(target, output.shape), output);
    }
    const classes = tf.oneHot(tf.tensor1d(target, "int32"), output.shape[1] as number);
    return tf.losses.softmaxCrossEntropy(classes, output);
  };
  return {
    async start() {
      await tf.setBackend("webgl");
      await tf.ready();
      const { layers } = network;
      // A ReLU is fused into the preceding layer.
      steps = layers.flatMap((layer, k) =>
        layer.kind === "ReLU"
          ? []
          : [stepOf(layer, weights, layers[k + 1]?.kind === "ReLU" ? "relu" : "linear", variables)],
      );
      optimizer = tf.train.sgd(network.rate);
    },
    async train(batches) {
      let loss: tf.Scalar | null = null;
      for (const { input, target } of batches) {
        loss?.dispose();
        loss = tf.tidy(() =>
          optimizer.minimize(() => lossOf(forward(input), target), true, variables),
        );
      }
      if (loss === null) throw new Error("no batch");
      const [value] = await loss.data();
      loss.dispose();
      return value as number;
    },
    close() {
      tf.dispose(variables);
      optimizer.dispose();
    },
  };
}
