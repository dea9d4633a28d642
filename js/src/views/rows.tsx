// A network of many stages: rows by module, each stage at its own scale.

import type { Network, Stage } from "../network/network.ts";
import { useViews } from "./context.ts";
import { Endpoints } from "./endpoints.tsx";
import { Arrow } from "./icons.tsx";
import { px } from "./layout.ts";
import { ArrowColumn, BOX, StageView } from "./stage.tsx";

export function Rows({ network, stages }: { network: Network; stages: readonly Stage[] }) {
  const { ratio, state, width } = useViews();
  const gap = Math.round(ratio.value);
  const groups = groupsOf(stages);
  const side = Math.min(264, width.value * 0.24);
  return (
    <div class="nbg-rows" role="group" aria-label="Network, from input to output">
      <div class="nbg-both">
        <Endpoints values={network.inputs} network={network} side={side} word="Input" />
        <div class="nbg-arrow" style={{ height: px(side) }}>
          <Arrow />
        </div>
        <Endpoints values={network.outputs} network={network} side={side} word="Output" />
        <p class="nbg-note">
          {stages.length} stages in rows, from top to bottom. Each is drawn at its own scale, with
          the channels that vary most.
        </p>
      </div>
      <div class="nbg-groups">
        {groups.map((group, i) => (
          <section class="nbg-group" key={group.stages[0]?.key}>
            <h3 class={i > 0 ? "nbg-after" : ""}>{group.name || state.plan.value?.name}</h3>
            <div class="nbg-flow">
              {group.stages.map((stage, j) => (
                <div class="nbg-step" key={stage.key}>
                  {i + j > 0 && <ArrowColumn />}
                  <StageView
                    network={network}
                    stage={stage}
                    mosaic={null}
                    gap={gap}
                    height={BOX}
                    group={group.name}
                  />
                </div>
              ))}
            </div>
          </section>
        ))}
      </div>
    </div>
  );
}

/** Neighbours in the same module. */
export function groupsOf(stages: readonly Stage[]): { name: string; stages: Stage[] }[] {
  const groups: { name: string; stages: Stage[] }[] = [];
  for (const stage of stages) {
    const group = groups.at(-1);
    if (group !== undefined && group.name === stage.group) group.stages.push(stage);
    else groups.push({ name: stage.group, stages: [stage] });
  }
  return groups;
}
