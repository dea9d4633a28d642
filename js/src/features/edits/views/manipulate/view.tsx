// The column "Manipulations" of the drawer of sources: bends on the network's picture, top to bottom.

import { useState } from "preact/hooks";
import { displayOf } from "../../../../network/display.ts";
import type { Network } from "../../../../network/network.ts";
import type { Range } from "../../../../plan/runtime.ts";
import type { Value } from "../../../../plan/schema.ts";
import { change } from "../../../../state/edits.ts";
import { useViews } from "../../../../views/context.ts";
import { px } from "../../../../views/layout.ts";
import { useRange } from "../../../../views/maps.tsx";
import { useStages } from "../derived.ts";
import { useGrips } from "../grips.tsx";
import { bend, isBendable, ofLayer, whyNot } from "../stack.ts";
import { useFollowing } from "./follow.ts";
import { offered } from "./manipulations.ts";
import { Row } from "./row.tsx";

/** What is done to the picture of one input, by its key, before the network has it. */
export function Manipulations({ network, input }: { network: Network; input: string }) {
  const value = network.values.get(input);
  if (value === undefined) return null;
  return (
    <section class="nbg-manipulate" aria-label="Manipulations">
      {isBendable(value) ? (
        <Column key={input} network={network} value={value} />
      ) : (
        <p class="nbg-second">{whyNot(value)}</p>
      )}
    </section>
  );
}

function Column({ network, value }: { network: Network; value: Value }) {
  const { state } = useViews();
  const { edits } = state.edited.value;
  const own = ofLayer(edits, value.key);
  const { list, drag, grip } = useGrips(value.key, 0);
  const [before, ...after] = useStages(value, own.length);
  // That of the picture as it comes: what makes it brighter is seen so.
  const chosen = useRange(displayOf(value).image ? (before ?? value) : value);
  const isBytes = state.plan.value?.inputs.some(
    ({ key, dtype }) => key === value.key && dtype === "uint8",
  );
  // With an alpha it has no range to choose: its numbers are a picture's.
  const range: Range =
    value.nchw[1] === 4 ? { mode: "fixed", low: 0, high: isBytes ? 255 : 1 } : chosen;
  const [asked, setFollowing] = useState("");
  const following = own.some(({ name, enabled }) => name === asked && enabled) ? asked : "";
  useFollowing(value.key, following);
  const trouble = state.editTrouble.value;
  return (
    <>
      <header class="nbg-manipulate-heading">
        <h3>
          Manipulations <span class="nbg-second">on the GPU, top to bottom</span>
        </h3>
        <Add value={value} />
      </header>
      {own.length === 0 && (
        <p class="nbg-second">None: the picture enters the network as it comes.</p>
      )}
      <div class="nbg-manipulate-list">
        <ol ref={list} data-dragged={drag !== null || undefined}>
          {own.map((edit, k) => (
            <Row
              key={edit.name}
              network={network}
              edit={edit}
              input={value}
              value={after[k] ?? value}
              range={range}
              grip={grip(edit, k)}
              place={`${k + 1} of ${own.length}`}
              following={following === edit.name}
              follow={(on) => setFollowing(on ? edit.name : "")}
            />
          ))}
        </ol>
        {drag !== null && <span class="nbg-manipulate-line" style={{ "--nb-at": px(drag.line) }} />}
      </div>
      {trouble !== "" && (
        <p class="nbg-bend-trouble" role="alert">
          {trouble}
        </p>
      )}
    </>
  );
}

function Add({ value }: { value: Value }) {
  const { state } = useViews();
  const [, count, height, width] = value.nchw;
  const all = offered(count);
  const add = (name: string): void => {
    const one = all.find(({ transform }) => transform === name);
    if (one === undefined) return;
    const { edits } = state.edited.peek();
    const parameters = one.start?.({ height, width });
    const made = bend(edits, value.key, one.kind, null, parameters && { parameters });
    change(state, [...edits, made]);
  };
  return (
    <select
      class="nbg-select"
      aria-label="Add a manipulation"
      value=""
      onChange={(event) => {
        add(event.currentTarget.value);
        event.currentTarget.value = "";
      }}
    >
      <option value="" hidden>
        + Add
      </option>
      {all.map(({ word, transform }) => (
        <option key={transform} value={transform}>
          {word}
        </option>
      ))}
    </select>
  );
}
