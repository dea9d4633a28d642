// One edit of the stack: its place, whether it is on, its numbers, its channels.
import { useState } from "preact/hooks";
import { type Edit, GLSL, TRANSFORMS } from "../../../plan/edits.ts";
import type { Value } from "../../../plan/schema.ts";
import { change } from "../../../state/edits.ts";
import { useViews } from "../../../views/context.ts";
import { type Grip, GripButton, RemoveButton } from "./grips.tsx";
import { NumberControl } from "./number.tsx";
import { pickingOf } from "./picks.ts";
import { calledOf, countText, isBend, MIX, parametersOf, withNumber, withPart } from "./stack.ts";

export function Row(props: { edit: Edit; value: Value; grip: Grip; place: string }) {
  const { edit, value, grip, place } = props;
  const { state } = useViews();
  const { of } = pickingOf(state);
  const [troubles, setTroubles] = useState<Readonly<Record<string, string>>>({});
  const { name, transform, channels, enabled, mix } = edit;
  const called = calledOf(edit);
  const own = name === transform ? "" : name;
  const numbers = isBend(edit) ? parametersOf(edit) : [];
  const edits = () => state.edited.peek().edits;
  const say = (what: string) => (text: string) => setTroubles((old) => ({ ...old, [what]: text }));
  const trouble = Object.entries(troubles).filter(([, text]) => text !== "");
  const says = TRANSFORMS.find((one) => one.name === transform)?.says ?? edit.source;
  const count = countText(channels, value.nchw[1]);
  return (
    <li class={enabled ? "nbg-bend-row" : "nbg-bend-row nbg-off"} data-bend={name}>
      <GripButton called={called} place={place} grip={grip} />
      <label class="nbg-bend-name" title={says}>
        <input
          type="checkbox"
          checked={enabled}
          onChange={(event) => {
            change(state, withPart(edits(), name, { enabled: event.currentTarget.checked }));
          }}
        />
        <strong>{called}</strong>
        {own !== "" && (
          <code class="nbg-second" title={own}>
            {own}
          </code>
        )}
      </label>
      <span class="nbg-bend-numbers">
        {numbers.map((parameter, k) => (
          <NumberControl
            key={parameter.name}
            parameter={parameter}
            value={edit.parameters[k] ?? 0}
            of={called}
            set={(number, step) => change(state, withNumber(edits(), edit, k, number), step)}
            say={say(parameter.name)}
          />
        ))}
        {isBend(edit) && (
          <NumberControl
            parameter={MIX}
            value={mix}
            of={called}
            set={(number, step) => change(state, withPart(edits(), name, { mix: number }), step)}
            say={say("mix")}
          />
        )}
        {transform === GLSL && <code class="nbg-second nbg-bend-source">{edit.source}</code>}
      </span>
      {isBend(edit) ? (
        <button
          type="button"
          class="nbg-pill"
          aria-pressed={of.value === name}
          aria-label={`Channels of ${called}: ${count}`}
          title={of.value === name ? "done" : "show and change these channels in the grid"}
          onClick={() => {
            of.value = of.peek() === name ? "" : name;
          }}
        >
          {count}
        </button>
      ) : (
        <span class="nbg-pill">{count}</span>
      )}
      <RemoveButton called={called} bend={isBend(edit)} grip={grip} />
      {trouble.length > 0 && (
        <p class="nbg-bend-trouble" role="alert">
          {trouble.map(([what, text]) => `${what}: ${text}`).join(" ")}
        </p>
      )}
    </li>
  );
}
