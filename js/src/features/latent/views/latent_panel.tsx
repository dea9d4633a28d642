// The latent workbench: a plane through the codes with a ring to drag, decoded pictures along it, and a slider for each
// unit.
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Network } from "../../../network/network.ts";
import { formatInteger, formatPlural, formatShort } from "../../../number_format.ts";
import { Choice as Buttons } from "../../../views/choice.tsx";
import { useViews } from "../../../views/context.ts";
import { isSkipped } from "../../../views/run_queries.ts";
import type { LatentRecord } from "../../sources/records.ts";
import { setLatentCode } from "../state.ts";
import { AxisPicker } from "./axis_picker.tsx";
import { CodePad } from "./code_pad.tsx";
import { CodeSliders } from "./code_sliders.tsx";
import { DecodeGrid } from "./decode_grid.tsx";
import { DecodedOutput } from "./decoded_output.tsx";
import { codeAt, type LatentCodes, unpackCodes } from "./latent_codes.ts";
import {
  type AxisChoice,
  type AxisKind,
  availableAxisKinds,
  codeAtPoint,
  distanceToPlane,
  makePlane,
  projectCode,
} from "./latent_plane.ts";

/** The panel that is shown while a latent is the source. */
export function LatentPanel({ network }: { network: Network }) {
  const { state } = useViews();
  const source = state.source.value;
  if (source === null || source.kind !== "latent" || !network.values.has(source.input)) return null;
  return (
    <LatentWorkbench key={`${source.input} ${source.data}`} network={network} source={source} />
  );
}

/** The data set's codes once loaded, and an error message if loading fails. */
function useCodes({ data, labels, classes }: LatentRecord): readonly [LatentCodes | null, string] {
  const { state } = useViews();
  const feeder = state.feeder.value;
  const [found, setFound] = useState<readonly [LatentCodes | null, string]>([null, ""]);
  useEffect(() => {
    if (data === "" || feeder === null) return;
    let wanted = true;
    const text = async (name: string): Promise<unknown> =>
      name === "" ? [] : JSON.parse(new TextDecoder().decode(await feeder.blob(name)));
    Promise.all([feeder.blob(data), text(labels), text(classes)]).then(
      ([bytes, numbers, names]) => {
        if (wanted) setFound([unpackCodes(bytes, numbers, names), ""]);
      },
      (error: unknown) => {
        if (wanted) setFound([null, error instanceof Error ? error.message : String(error)]);
      },
    );
    return () => {
      wanted = false;
      for (const name of [data, labels, classes]) if (name !== "") feeder.release(name);
    };
  }, [feeder, data, labels, classes]);
  return found;
}

const AXIS_KIND_LABELS: readonly (readonly [AxisKind, string])[] = [
  ["pca", "PCA 1, 2"],
  ["units", "Units"],
  ["between", "Between two pictures"],
];

function LatentWorkbench({ network, source }: { network: Network; source: LatentRecord }) {
  const { state } = useViews();
  const [codes, trouble] = useCodes(source);
  const now = state.latentCode.value ?? source.code;
  const [choice, setChoice] = useState<AxisChoice>({
    axisKind: "pca",
    units: [0, 1],
    pictures: [0, 1],
  });
  /** Which end of the A–B line the next clicked picture becomes; null for none. */
  const [picking, setPicking] = useState<0 | 1 | null>(null);
  const able = availableAxisKinds(codes);
  const axisKind = able.includes(choice.axisKind) ? choice.axisKind : "units";
  // Only a plane of two units depends on the code's other units.
  const others = axisKind === "units" ? now : null;
  const plane = useMemo(
    () => makePlane({ ...choice, axisKind }, codes, others),
    [choice, axisKind, codes, others],
  );
  const move = (code: readonly number[]): void => setLatentCode(state, code);
  const take = (at: number): void => {
    if (codes === null) return;
    if (picking === null) move([...codeAt(codes, at)]);
    else {
      const [a, b] = choice.pictures;
      setChoice({ ...choice, pictures: picking === 0 ? [at, b] : [a, at] });
      setPicking(null);
    }
  };
  const point = projectCode(plane, now);
  const off = distanceToPlane(plane, now);
  const output = network.outputs.find(({ key }) => !isSkipped(state.session.value, key));
  const layers = source.input;
  return (
    <section class="nbg-latent" aria-label="Latent">
      <header class="nbg-latent-head">
        <h3>
          <strong>Latent</strong>{" "}
          <span class="nbg-second">
            of {layers} · {formatPlural(now.length, "value")} · drag the ring to decode another code
          </span>
        </h3>
        <div class="nbg-latent-axes">
          <span class="nbg-second">Axes</span>
          <Buttons
            label="Axes of the plane"
            items={codes === null ? AXIS_KIND_LABELS.slice(1, 2) : AXIS_KIND_LABELS}
            selected={axisKind}
            choose={(one) => {
              setPicking(null);
              setChoice({ ...choice, axisKind: one });
            }}
          />
        </div>
      </header>
      <AxisPicker
        axisKind={axisKind}
        choice={choice}
        codes={codes}
        codeSize={now.length}
        pickedEnd={picking}
        choose={setChoice}
        pick={setPicking}
      />
      <div class="nbg-latent-parts">
        <figure class="nbg-latent-pad">
          <CodePad
            plane={plane}
            codes={codes}
            currentCode={now}
            point={point}
            move={(to) => move(codeAtPoint(plane, to))}
            onItemClick={take}
          />
          <figcaption class="nbg-second">
            {trouble !== "" && <span role="alert">The codes could not be loaded: {trouble} </span>}
            {codes === null ? (
              <MissingCodes source={source} />
            ) : (
              <CodesCaption codes={codes} axisKind={axisKind} planeDistance={off} />
            )}
          </figcaption>
        </figure>
        <figure class="nbg-latent-grid">
          <DecodeGrid
            source={source}
            plane={plane}
            point={point}
            output={output}
            move={(to) => move(codeAtPoint(plane, to))}
          />
        </figure>
        <CodeSliders codes={codes} currentCode={now} initialRecord={source} move={move} />
        <DecodedOutput
          network={network}
          source={source}
          output={output}
          codes={codes}
          currentCode={now}
          plane={plane}
          point={point}
          move={move}
        />
      </div>
    </section>
  );
}

function MissingCodes({ source }: { source: LatentRecord }) {
  return source.data === "" ? (
    <>
      No data. Pass data to see its codes: <code>Latent("{source.input}", data=images)</code>
    </>
  ) : (
    <>Loading codes…</>
  );
}

/** The caption of the points: their number, and the variance that the plane covers. */
function CodesCaption({
  codes,
  axisKind,
  planeDistance,
}: {
  codes: LatentCodes;
  axisKind: AxisKind;
  planeDistance: number;
}) {
  const { count, itemCount, explainedVariance } = codes;
  const some =
    count < itemCount
      ? `${formatInteger(count)} of ${formatInteger(itemCount)}`
      : formatInteger(count);
  const share = (k: 0 | 1) => `${Math.round(100 * explainedVariance[k])} %`;
  return (
    <>
      {some} {itemCount === 1 ? "picture" : "pictures"} · hover a name, click a point
      {axisKind === "pca" && ` · PC 1 has ${share(0)} of the variance, PC 2 ${share(1)}`}
      {planeDistance > 1e-4 &&
        axisKind !== "units" &&
        ` · distance of the code from this plane: ${formatShort(planeDistance)}`}
    </>
  );
}
