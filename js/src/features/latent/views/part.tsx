// The latent workbench: a plane through the codes with a ring to drag, what is decoded along it, and a slider a number.
import { useEffect, useMemo, useState } from "preact/hooks";
import { full, plural, short } from "../../../format.ts";
import type { Network } from "../../../network/network.ts";
import { Choice as Buttons } from "../../../views/choice.tsx";
import { useViews } from "../../../views/context.ts";
import { isSkipped } from "../../../views/measures.ts";
import type { LatentRecord } from "../../sources/records.ts";
import { moveTo } from "../state.ts";
import { AxesOf } from "./axes.tsx";
import { type Codes, codeAt, codesOf } from "./codes.ts";
import { Decoded } from "./decoded.tsx";
import { Grid } from "./grid.tsx";
import { Pad } from "./pad.tsx";
import { type Axes, axesOf, type Choice, codeOn, distance, planeOf, pointOf } from "./plane.ts";
import { Sliders } from "./sliders.tsx";

/** Shown while a latent is the source. */
export function LatentPart({ network }: { network: Network }) {
  const { state } = useViews();
  const source = state.source.value;
  if (source === null || source.kind !== "latent" || !network.values.has(source.input)) return null;
  return <Workbench key={`${source.input} ${source.data}`} network={network} source={source} />;
}

/** The data's codes, once they are here; and why not, where they don't come. */
function useCodes({ data, labels, classes }: LatentRecord): readonly [Codes | null, string] {
  const { state } = useViews();
  const feeder = state.feeder.value;
  const [found, setFound] = useState<readonly [Codes | null, string]>([null, ""]);
  useEffect(() => {
    if (data === "" || feeder === null) return;
    let wanted = true;
    const text = async (name: string): Promise<unknown> =>
      name === "" ? [] : JSON.parse(new TextDecoder().decode(await feeder.blob(name)));
    Promise.all([feeder.blob(data), text(labels), text(classes)]).then(
      ([bytes, numbers, names]) => {
        if (wanted) setFound([codesOf(bytes, numbers, names), ""]);
      },
      (error: unknown) => {
        if (wanted) setFound([null, error instanceof Error ? error.message : String(error)]);
      },
    );
    return () => {
      wanted = false;
      for (const name of [data, labels, classes]) if (name !== "") feeder.drop(name);
    };
  }, [feeder, data, labels, classes]);
  return found;
}

const AXES: readonly (readonly [Axes, string])[] = [
  ["pca", "PCA 1, 2"],
  ["units", "Units"],
  ["between", "Between two pictures"],
];

function Workbench({ network, source }: { network: Network; source: LatentRecord }) {
  const { state } = useViews();
  const [codes, trouble] = useCodes(source);
  const now = state.code.value ?? source.code;
  const [choice, setChoice] = useState<Choice>({ axes: "pca", units: [0, 1], pictures: [0, 1] });
  /** The next picture that is clicked is one end of the line between two. */
  const [picking, setPicking] = useState<0 | 1 | null>(null);
  const able = axesOf(codes);
  const axes = able.includes(choice.axes) ? choice.axes : "units";
  // Only a plane of units stands where the other numbers of the code are.
  const others = axes === "units" ? now : null;
  const plane = useMemo(
    () => planeOf({ ...choice, axes }, codes, others),
    [choice, axes, codes, others],
  );
  const move = (code: readonly number[]): void => moveTo(state, code);
  const take = (at: number): void => {
    if (codes === null) return;
    if (picking === null) move([...codeAt(codes, at)]);
    else {
      const [a, b] = choice.pictures;
      setChoice({ ...choice, pictures: picking === 0 ? [at, b] : [a, at] });
      setPicking(null);
    }
  };
  const point = pointOf(plane, now);
  const off = distance(plane, now);
  const output = network.outputs.find(({ key }) => !isSkipped(state.session.value, key));
  const layers = source.input;
  return (
    <section class="nbg-latent" aria-label="Latent">
      <header class="nbg-latent-head">
        <h3>
          <strong>Latent</strong>{" "}
          <span class="nbg-second">
            cut at {layers} · {plural(now.length, "number")} · move the ring, the decoder draws it
          </span>
        </h3>
        <div class="nbg-latent-axes">
          <span class="nbg-second">Axes</span>
          <Buttons
            label="Axes of the plane"
            items={codes === null ? AXES.slice(1, 2) : AXES}
            now={axes}
            choose={(one) => {
              setPicking(null);
              setChoice({ ...choice, axes: one });
            }}
          />
        </div>
      </header>
      <AxesOf
        axes={axes}
        choice={choice}
        codes={codes}
        numbers={now.length}
        picking={picking}
        choose={setChoice}
        pick={setPicking}
      />
      <div class="nbg-latent-parts">
        <figure class="nbg-latent-pad">
          <Pad
            plane={plane}
            codes={codes}
            now={now}
            point={point}
            move={(to) => move(codeOn(plane, to))}
            take={take}
          />
          <figcaption class="nbg-second">
            {trouble !== "" && <span role="alert">The codes did not come: {trouble} </span>}
            {codes === null ? (
              <NoCodes source={source} />
            ) : (
              <About codes={codes} axes={axes} off={off} />
            )}
          </figcaption>
        </figure>
        <figure class="nbg-latent-grid">
          <Grid
            source={source}
            plane={plane}
            point={point}
            output={output}
            move={(to) => move(codeOn(plane, to))}
          />
        </figure>
        <Sliders codes={codes} now={now} first={source} move={move} />
        <Decoded
          network={network}
          source={source}
          output={output}
          codes={codes}
          now={now}
          plane={plane}
          point={point}
          move={move}
        />
      </div>
    </section>
  );
}

function NoCodes({ source }: { source: LatentRecord }) {
  return source.data === "" ? (
    <>
      No data: give some to see where its codes are,{" "}
      <code>Latent("{source.input}", data=images)</code>
    </>
  ) : (
    <>The codes are on their way from Python.</>
  );
}

/** What the points are, and how much of them the plane shows. */
function About({ codes, axes, off }: { codes: Codes; axes: Axes; off: number }) {
  const { count, total, explained } = codes;
  const some = count < total ? `${full(count)} of ${full(total)}` : full(count);
  const share = (k: 0 | 1) => `${Math.round(100 * explained[k])} %`;
  return (
    <>
      {some} {total === 1 ? "picture" : "pictures"} · hover a name, click a point
      {axes === "pca" && ` · PC 1 has ${share(0)} of the variance, PC 2 ${share(1)}`}
      {off > 1e-4 && axes !== "units" && ` · the code is ${short(off)} off this plane`}
    </>
  );
}
