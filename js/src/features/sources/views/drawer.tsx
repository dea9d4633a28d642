import type { PartProps } from "./part.ts";
// The drawer under the bar: which source, what that offers, what is done to its picture, and what enters the network.

import type { FunctionComponent } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Input } from "../../../plan/schema.ts";
import { useViews } from "../../../views/context.ts";
import { Cross } from "../../../views/icons.tsx";
import { pythonOf as linesOf } from "../../edits/views/lines.ts";
import { Manipulations } from "../../edits/views/manipulate/view.tsx";
import { Lines } from "../../edits/views/python.tsx";
import { LatentPart } from "../../latent/views/part.tsx";
import { kindOf } from "../kinds.ts";
import type { Source, SourceKindName, SourceOf } from "../records.ts";
import { CameraPart } from "./camera.tsx";
import { begin, inputOf, inputsOf, offered, takeFile, takeOver } from "./choose.ts";
import { DataPart } from "./data.tsx";
import { DrawPart } from "./draw.tsx";
import { Enters } from "./enters.tsx";
import { FilmPart } from "./film.tsx";
import { KindIcon } from "./kind_icon.tsx";
import { NumbersPart } from "./numbers.tsx";
import { PicturePart } from "./picture.tsx";
import { failureWords, pythonOf, whyNoPictures } from "./source_text.ts";

/** Those that offer more than numbers. */
const PARTS: { readonly [K in SourceKindName]?: FunctionComponent<PartProps<SourceOf<K>>> } = {
  picture: PicturePart,
  webcam: CameraPart,
  video: FilmPart,
  drawing: DrawPart,
  images: DataPart,
};

export function Drawer() {
  const { state } = useViews();
  return state.drawer.value && state.feeder.value !== null ? <Open /> : null;
}

function Open() {
  const views = useViews();
  const { state, root, network } = views;
  const { source: current, drawer } = state;
  const source = current.value;
  const [looked, look] = useState<{
    readonly of: SourceKindName | null;
    readonly at: SourceKindName;
  } | null>(null);
  const [key, setKey] = useState("");
  const [dropping, setDropping] = useState(false);
  const [trouble, setTrouble] = useState("");
  const place = useRef<HTMLElement>(null);
  const close = (): void => {
    drawer.value = false;
    root.querySelector<HTMLElement>(".nbg-chosen-source")?.focus({ preventScroll: true });
  };
  // It opens where the reader is: the next Tab is the first source.
  useLayoutEffect(() => {
    const first = place.current?.querySelector<HTMLElement>(".nbg-kinds [aria-pressed='true']");
    const { activeElement } = root.getRootNode() as Document | ShadowRoot;
    if (activeElement !== null && root.contains(activeElement))
      first?.focus({ preventScroll: true });
  }, [root]);

  const input = inputOf(state, key);
  if (input === undefined) return null;
  const kinds = offered(state, input);
  const kept = looked?.of === (source?.kind ?? null) ? looked.at : undefined;
  const shown = kept ?? source?.kind ?? kinds[0];
  const ShownPart = shown && (PARTS[shown] as FunctionComponent<PartProps<Source>> | undefined);
  const own = source?.kind === shown ? source : null;
  const inputs = inputsOf(state);
  const choose = (kind: SourceKindName): void => {
    setTrouble("");
    if (kindOf({ kind }).beginsByName) {
      look(null);
      begin(state, input, kind);
    } else look({ of: source?.kind ?? null, at: kind });
  };
  const onDrop = (event: DragEvent): void => {
    event.preventDefault();
    setDropping(false);
    const file = event.dataTransfer?.files[0];
    setTrouble("");
    if (file === undefined) setTrouble("That is no file: nothing is loaded from an address.");
    else if (input.fit === "") setTrouble(whyNoPictures(input));
    else {
      look(null);
      takeFile(state, input, file);
    }
  };
  const onOver = (event: DragEvent): void => {
    if (event.dataTransfer === null) return;
    event.preventDefault();
    event.dataTransfer.dropEffect = "copy";
    setDropping(true);
  };
  return (
    <section
      ref={place}
      class={dropping ? "nbg-drawer nbg-dropping" : "nbg-drawer"}
      aria-label="Where the input comes from"
      onKeyDown={(event) => {
        if (event.key !== "Escape" || event.defaultPrevented) return;
        event.stopPropagation(); // it leads back to nothing else
        close();
      }}
      onDragOver={onOver}
      onDragLeave={() => setDropping(false)}
      onDrop={onDrop}
    >
      <div class="nbg-kinds" role="group" aria-label="Sources">
        <span class="nbg-second">Source</span>
        {kinds.map((kind) => (
          <button
            type="button"
            key={kind}
            class="nbg-button"
            data-kind={kind}
            aria-pressed={shown === kind}
            onClick={() => choose(kind)}
          >
            <KindIcon kind={kind} /> {kindOf({ kind }).word}
          </button>
        ))}
        {inputs.length > 1 && source === null && (
          <select
            class="nbg-select"
            aria-label="Which input"
            value={input.key}
            onChange={(event) => setKey(event.currentTarget.value)}
          >
            {inputs.map((one) => (
              <option key={one.key} value={one.key}>
                {one.key}
              </option>
            ))}
          </select>
        )}
        <span class="nbg-space" />
        {source !== null && (
          <button
            type="button"
            class="nbg-button"
            title="The last picture stays as the input"
            onClick={() => {
              look(null);
              current.value = null;
            }}
          >
            Turn off
          </button>
        )}
        <button type="button" class="nbg-drawer-close" onClick={close}>
          Close <Cross />
        </button>
      </div>
      {shown === "latent" && network.value !== null ? (
        // It feeds no input: what is done to one, or enters by it, is not looked at meanwhile.
        <>
          <Trouble input={input} shown={shown} said={trouble} />
          <LatentPart network={network.value} />
        </>
      ) : (
        <div class="nbg-drawer-columns">
          <div class="nbg-offers">
            <Trouble input={input} shown={shown} said={trouble} />
            {ShownPart ? (
              <ShownPart key={shown} input={input} source={own} />
            ) : (
              shown && <NumbersPart kind={shown} source={own} />
            )}
          </div>
          {network.value !== null && (
            <div class="nbg-manipulations">
              <Manipulations network={network.value} input={input.key} />
            </div>
          )}
          <Enters input={input} />
        </div>
      )}
      <Python input={input.key} several={inputs.length > 1} />
    </section>
  );
}

/** What is wrong or missing, what still works, and one thing to do. */
function Trouble(props: { input: Input; shown: SourceKindName | undefined; said: string }) {
  const { input, shown, said } = props;
  const { state } = useViews();
  const source = state.source.value;
  const status = state.sourceStatus.value;
  const why = whyNoPictures(input);
  const own = source !== null && source.kind === shown;
  return (
    <>
      {said !== "" && (
        <p class="nbg-bad" role="alert">
          {said}
        </p>
      )}
      {why !== "" && <p class="nbg-second nbg-source-why">{why}</p>}
      {own && status.phase === "failed" && <Failed source={source} />}
      {own && status.phase === "elsewhere" && (
        <div class="nbg-source-note" role="status">
          <strong>Another page has it</strong>
          <p class="nbg-second">It was started there, and feeds this one by way of Python.</p>
          <button type="button" class="nbg-button" onClick={() => takeOver(state)}>
            Start it here
          </button>
        </div>
      )}
    </>
  );
}

function Failed({ source }: { source: Source }) {
  const status = useViews().state.sourceStatus.value;
  const [title, text] = failureWords(source, status);
  return (
    <div class="nbg-source-note nbg-source-failed" role="alert">
      <strong>{title}</strong>
      <p class="nbg-second">{text}</p>
      {status.detail !== "" && (
        <details>
          <summary class="nbg-button">Details</summary>
          <pre>{status.detail}</pre>
        </details>
      )}
    </div>
  );
}

/** Lines of Python that do the same: the source, but for a file that this browser could not read, and its manipulations. */
function Python({ input, several }: { input: string; several: boolean }) {
  const { source, sourceStatus, edited } = useViews().state;
  const now = sourceStatus.value.phase === "failed" ? null : source.value;
  const line = now === null ? "" : pythonOf(now, several);
  const manipulations = edited.value.edits.filter(({ layer }) => layer === input);
  const lines = [...(line === "" ? [] : [line]), ...linesOf(manipulations)];
  return lines.length > 0 ? <Lines title="As Python" lines={lines} /> : null;
}
