import type { SourcePanelProps } from "./panel_props.ts";
// The drawer below the bar: source kinds, the kind's panel, manipulations of the picture, and the network input.

import type { FunctionComponent } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Input } from "../../../plan/schema.ts";
import { useViews } from "../../../views/context.ts";
import { CloseIcon } from "../../../views/icons.tsx";
import { editsAsPython as linesOf } from "../../edits/views/edits_as_python.ts";
import { Manipulations } from "../../edits/views/manipulate/manipulations_view.tsx";
import { PythonLines } from "../../edits/views/python_lines.tsx";
import { LatentPanel } from "../../latent/views/latent_panel.tsx";
import type { Source, SourceKindName, SourceOf } from "../records.ts";
import { getSourceKind } from "../source_kinds.ts";
import { DatasetPanel } from "./dataset_panel.tsx";
import { DrawingPanel } from "./drawing_panel.tsx";
import { KindIcon } from "./kind_icon.tsx";
import { NetworkInput } from "./network_input.tsx";
import { NumericPanel } from "./numeric_panel.tsx";
import { PicturePanel } from "./picture_panel.tsx";
import {
  availableKinds,
  modelInputs,
  selectedInput,
  selectSource,
  startFromFile,
  takeOverSource,
} from "./source_selection.ts";
import { failureText, noPicturesText, sourceAsPython } from "./source_text.ts";
import { VideoPanel } from "./video_panel.tsx";
import { WebcamPanel } from "./webcam_panel.tsx";

/** Panels of the kinds that have more than numeric fields. */
const PANELS: {
  readonly [K in SourceKindName]?: FunctionComponent<SourcePanelProps<SourceOf<K>>>;
} = {
  picture: PicturePanel,
  webcam: WebcamPanel,
  video: VideoPanel,
  drawing: DrawingPanel,
  images: DatasetPanel,
};

export function SourceDrawer() {
  const { state } = useViews();
  return state.isDrawerOpen.value && state.feeder.value !== null ? <DrawerContent /> : null;
}

function DrawerContent() {
  const views = useViews();
  const { state, root, network } = views;
  const { source: current, isDrawerOpen } = state;
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
    isDrawerOpen.value = false;
    root.querySelector<HTMLElement>(".nbg-chosen-source")?.focus({ preventScroll: true });
  };
  // If the focus is inside the view, focus the current source's button, so that Tab continues from there.
  useLayoutEffect(() => {
    const first = place.current?.querySelector<HTMLElement>(".nbg-kinds [aria-pressed='true']");
    const { activeElement } = root.getRootNode() as Document | ShadowRoot;
    if (activeElement !== null && root.contains(activeElement))
      first?.focus({ preventScroll: true });
  }, [root]);

  const input = selectedInput(state, key);
  if (input === undefined) return null;
  const kinds = availableKinds(state, input);
  const kept = looked?.of === (source?.kind ?? null) ? looked.at : undefined;
  const shown = kept ?? source?.kind ?? kinds[0];
  const ShownPart =
    shown && (PANELS[shown] as FunctionComponent<SourcePanelProps<Source>> | undefined);
  const own = source?.kind === shown ? source : null;
  const inputs = modelInputs(state);
  const choose = (kind: SourceKindName): void => {
    setTrouble("");
    if (getSourceKind({ kind }).startsOnSelect) {
      look(null);
      selectSource(state, input, kind);
    } else look({ of: source?.kind ?? null, at: kind });
  };
  const onDrop = (event: DragEvent): void => {
    event.preventDefault();
    setDropping(false);
    const file = event.dataTransfer?.files[0];
    setTrouble("");
    if (file === undefined) setTrouble("Drop a file. URLs are not loaded.");
    else if (input.fit === "") setTrouble(noPicturesText(input));
    else {
      look(null);
      startFromFile(state, input, file);
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
      aria-label="Source of the input"
      onKeyDown={(event) => {
        if (event.key !== "Escape" || event.defaultPrevented) return;
        event.stopPropagation(); // Esc does nothing else
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
            <KindIcon kind={kind} /> {getSourceKind({ kind }).label}
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
            title="Keeps the last picture as the input"
            onClick={() => {
              look(null);
              current.value = null;
            }}
          >
            Turn off
          </button>
        )}
        <button type="button" class="nbg-drawer-close" onClick={close}>
          Close <CloseIcon />
        </button>
      </div>
      {shown === "latent" && network.value !== null ? (
        // A latent feeds no input: hide the manipulations and the network input.
        <>
          <SourceProblems input={input} shownKind={shown} errorMessage={trouble} />
          <LatentPanel network={network.value} />
        </>
      ) : (
        <div class="nbg-drawer-columns">
          <div class="nbg-offers">
            <SourceProblems input={input} shownKind={shown} errorMessage={trouble} />
            {ShownPart ? (
              <ShownPart key={shown} input={input} source={own} />
            ) : (
              shown && <NumericPanel kind={shown} source={own} />
            )}
          </div>
          {network.value !== null && (
            <div class="nbg-manipulations">
              <Manipulations network={network.value} input={input.key} />
            </div>
          )}
          <NetworkInput input={input} />
        </div>
      )}
      <SourceAsPython input={input.key} hasSeveralInputs={inputs.length > 1} />
    </section>
  );
}

/** Error messages: the problem, what still works, and one action. */
function SourceProblems(props: {
  input: Input;
  shownKind: SourceKindName | undefined;
  errorMessage: string;
}) {
  const { input, shownKind, errorMessage } = props;
  const { state } = useViews();
  const source = state.source.value;
  const status = state.sourceStatus.value;
  const why = noPicturesText(input);
  const own = source !== null && source.kind === shownKind;
  return (
    <>
      {errorMessage !== "" && (
        <p class="nbg-bad" role="alert">
          {errorMessage}
        </p>
      )}
      {why !== "" && <p class="nbg-second nbg-source-why">{why}</p>}
      {own && status.phase === "failed" && <FailureNote source={source} />}
      {own && status.phase === "elsewhere" && (
        <div class="nbg-source-note" role="status">
          <strong>Another page runs this source</strong>
          <p class="nbg-second">It sends its pictures here through Python.</p>
          <button type="button" class="nbg-button" onClick={() => takeOverSource(state)}>
            Run it here
          </button>
        </div>
      )}
    </>
  );
}

function FailureNote({ source }: { source: Source }) {
  const status = useViews().state.sourceStatus.value;
  const [title, text] = failureText(source, status);
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

/**
 * Equivalent lines of Python: the source and its manipulations. A source that failed, such as an undecodable file, is
 * omitted.
 */
function SourceAsPython({ input, hasSeveralInputs }: { input: string; hasSeveralInputs: boolean }) {
  const { source, sourceStatus, currentEdits } = useViews().state;
  const now = sourceStatus.value.phase === "failed" ? null : source.value;
  const line = now === null ? "" : sourceAsPython(now, hasSeveralInputs);
  const manipulations = currentEdits.value.edits.filter(({ layer }) => layer === input);
  const lines = [...(line === "" ? [] : [line]), ...linesOf(manipulations)];
  return lines.length > 0 ? <PythonLines title="As Python" lines={lines} /> : null;
}
