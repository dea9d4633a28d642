// The panel of a picture source: file selection by dialog, drop or paste, and the original picture.
import { useLayoutEffect, useRef } from "preact/hooks";
import { formatShape } from "../../../number_format.ts";
import { channelsAndSize } from "../../../pictures/resize.ts";
import type { Input } from "../../../plan/schema.ts";
import { useViews } from "../../../views/context.ts";
import type { PictureRecord } from "../records.ts";
import { KindIcon } from "./kind_icon.tsx";
import type { SourcePanelProps } from "./panel_props.ts";
import { startFromFile } from "./source_selection.ts";

/** Longer side of the original picture in CSS pixels. */
const PICTURE_SIDE = 200;

export function PicturePanel({ input, source }: SourcePanelProps<PictureRecord>) {
  const { state } = useViews();
  const picture = source === null ? null : (state.sourceControls.value?.picture ?? null);
  if (source !== null && state.sourceStatus.value.phase === "elsewhere") return null;
  return (
    <div class="nbg-film">
      {picture !== null && <OriginalPicture picture={picture} title={source?.title ?? ""} />}
      <FilePicker input={input} fileKind="picture" accept="image/*" />
    </div>
  );
}

function OriginalPicture({ picture, title }: { picture: ImageBitmap; title: string }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const { width, height } = picture;
  const scale = Math.min(1, PICTURE_SIDE / Math.max(width, height));
  const [across, down] = [Math.max(1, width * scale), Math.max(1, height * scale)];
  useLayoutEffect(() => {
    const context = canvas.current?.getContext("2d");
    context?.drawImage(picture, 0, 0, context.canvas.width, context.canvas.height);
  }, [picture]);
  return (
    <figure class="nbg-source-figure">
      <canvas
        ref={canvas}
        class="nbg-smooth"
        role="img"
        aria-label={`${title === "" ? "The picture" : title}, unmodified`}
        width={Math.round(across * devicePixelRatio)}
        height={Math.round(down * devicePixelRatio)}
        style={{ width: `${across}px`, height: `${down}px` }}
      />
      <figcaption class="nbg-second">
        {title !== "" && `${title}, `}
        {width}×{height}
      </figcaption>
    </figure>
  );
}

/** How a picture is fitted to the input size. */
const FIT_TEXT: Readonly<Record<Input["fit"], string>> = {
  "": "",
  crop: "It is centre-cropped to",
  letterbox: "It is letterboxed to",
  stretch: "It is stretched to",
};

/** A file drop area with a file button. */
export function FilePicker(props: { input: Input; fileKind: "picture" | "video"; accept: string }) {
  const { input, fileKind, accept } = props;
  const { state } = useViews();
  const file = useRef<HTMLInputElement>(null);
  return (
    <div class="nbg-drop">
      <div class="nbg-empty-picture" aria-hidden="true">
        <KindIcon kind="picture" />
      </div>
      <div class="nbg-source-words">
        <strong>Drop a {fileKind}</strong>
        <p class="nbg-second">
          or paste it. {FIT_TEXT[input.fit]} {formatShape(channelsAndSize(input))}, the input size
          of the model.
        </p>
        <input
          ref={file}
          type="file"
          hidden
          accept={accept}
          onChange={(event) => {
            const chosen = event.currentTarget.files?.[0];
            if (chosen !== undefined) startFromFile(state, input, chosen);
            event.currentTarget.value = ""; // so that the same file can be chosen again
          }}
        />
        <button type="button" class="nbg-button" onClick={() => file.current?.click()}>
          Choose a file
        </button>
      </div>
    </div>
  );
}
