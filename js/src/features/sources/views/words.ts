// What is said of sources: what each is called, what has gone wrong and what to do then, the line of Python.
import { full } from "../../../format.ts";
import type { Input } from "../../../plan/schema.ts";
import type { Source } from "../records.ts";
import type { SourceStatus } from "../state.ts";

export const KIND_WORDS: Readonly<Record<Source["kind"], string>> = {
  picture: "Picture",
  webcam: "Webcam",
  video: "Video",
  drawing: "Draw",
  images: "Data set",
  noise: "Noise",
  latent: "Latent",
};

/** What the bar calls the source of now. */
export function titleOf(source: Source | null): string {
  if (source === null) return "Array";
  const { kind, title, index, seed } = source;
  switch (kind) {
    case "images":
      return `${title === "" ? "Data set" : title} ${full(index)}`;
    case "noise":
      return `Noise ${seed}`;
    case "drawing":
      return "Drawing";
    case "picture":
    case "video":
      return title === "" ? KIND_WORDS[kind] : title;
    default:
      return KIND_WORDS[kind];
  }
}

/** The thing that is wrong; the cause, what still works and what to do. */
export function failureWords(
  { kind }: Source,
  { failure }: SourceStatus,
): readonly [title: string, text: string] {
  const other = "choose another source";
  switch (failure) {
    case "none":
      return ["There is no camera", `Plug one in and start it again, or ${other}.`];
    case "denied":
      return ["The browser said no to the camera", `Allow it in the address bar, or ${other}.`];
    case "insecure":
      return ["Cameras need https or localhost", `This page has neither; ${other}.`];
    case "taken":
      return ["Another program has the camera", `Close that and start it again, or ${other}.`];
    case "framed":
      return [
        "The page around this one keeps the camera to itself",
        `Its frame lacks allow="camera": open this page in a tab of its own, or ${other}.`,
      ];
    case "damaged":
      return kind === "video"
        ? [
            "This browser cannot play the film",
            `WebM with VP8 or VP9 plays everywhere, MP4 with H.264 nearly; or ${other}.`,
          ]
        : [
            "This browser cannot show the picture",
            `The file is damaged or of a kind that it doesn’t know; save it as PNG or JPEG, or ${other}.`,
          ];
    case "lost":
      return kind === "webcam"
        ? [
            "The camera’s pictures have ended",
            `It was unplugged, or the browser took it back. Start it again, or ${other}.`,
          ]
        : [
            "A part of the data set has not come",
            "Other items can be chosen; running the cell again brings all of it.",
          ];
    default:
      return ["This source cannot be shown", `The input stays as it is; ${other}.`];
  }
}

/** Why an input takes no pictures; "" where it does. */
export function whyNoPictures({ key, shape, fit }: Input): string {
  if (fit !== "") return "";
  return `${key} takes ${shape.join("×")} numbers. A picture can become float32 of n × 1, 3 or 4 × height × width, or uint8.`;
}

/** A code of more numbers is left out of the line. */
const MOST_NUMBERS = 64;

const quoted = (text: string): string => JSON.stringify(text);

/** The line of Python that does the same; "" where only a page can. */
export function pythonOf(source: Source, several: boolean): string {
  const { kind, input, faces, mirrored, index, playing, rate, shuffled, seed, mean, std } = source;
  const { folder, code } = source;
  const made = (name: string, ...parts: (string | false)[]): string => {
    const said = [...parts, several && `input=${quoted(input)}`].filter((part) => part !== false);
    return `viewer.source = nbglcnn.${name}(${said.join(", ")})`;
  };
  switch (kind) {
    case "webcam":
      return made(
        "Webcam",
        faces !== "user" && `faces=${quoted(faces)}`,
        !mirrored && "mirrored=False",
      );
    case "video":
      return source.title === ""
        ? ""
        : made("Video", quoted(source.title), mirrored && "mirrored=True");
    case "images":
      // Of what else was given Python alone has a name.
      if (folder === "") return `viewer.source = viewer.source.at(${index})`;
      return made(
        "Images",
        quoted(folder),
        `index=${index}`,
        playing && "playing=True",
        playing && `rate=${rate}`,
        shuffled && "shuffled=True",
        shuffled && `seed=${seed}`,
      );
    case "latent": {
      const numbers = code.map((one) => Number(one.toPrecision(7)) || 0).join(", ");
      const short = code.length > 0 && code.length <= MOST_NUMBERS;
      if (source.data !== "" && folder === "") {
        return short ? `viewer.source = viewer.source.with_code([${numbers}])` : "";
      }
      const data = folder === "" ? "" : `, data=${quoted(folder)}`;
      const given = short ? `, code=[${numbers}]` : "";
      return `viewer.source = nbglcnn.Latent(${quoted(input)}${data}${given})`;
    }
    case "drawing":
      return made("Drawing");
    case "noise":
      return made("Noise", `${seed}`, `mean=${mean}`, `std=${std}`);
    case "picture":
      return source.title === "" ? "" : made("Images", `[${quoted(source.title)}]`);
    default:
      return "";
  }
}
