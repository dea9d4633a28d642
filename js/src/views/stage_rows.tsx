// A network of many stages: rows by module, each stage at its own scale.

import type { Network, Stage } from "../network/network.ts";
import { useViews } from "./context.ts";
import { Endpoints } from "./endpoints.tsx";
import { ArrowIcon } from "./icons.tsx";
import { px } from "./layout.ts";
import { ArrowColumn, STAGE_SIDE, StageView } from "./stage.tsx";

export function StageRows({ network, stages }: { network: Network; stages: readonly Stage[] }) {
  const { pixelRatio, state, width } = useViews();
  const gap = Math.round(pixelRatio.value);
  const groups = moduleGroups(stages);
  const side = Math.min(264, width.value * 0.24);
  return (
    <div class="nbg-rows" role="group" aria-label="Network, from input to output">
      <div class="nbg-both">
        <Endpoints values={network.inputs} network={network} side={side} label="Input" />
        <div class="nbg-arrow" style={{ height: px(side) }}>
          <ArrowIcon />
        </div>
        <Endpoints values={network.outputs} network={network} side={side} label="Output" />
        <p class="nbg-note">
          {stages.length} stages in rows, from top to bottom. Each has its own scale and shows the
          channels with the largest variance.
        </p>
      </div>
      <div class="nbg-groups">
        {groups.map((group, i) => (
          <section class="nbg-group" key={group.stages[0]?.valueKey}>
            <h3 class={i > 0 ? "nbg-after" : ""}>{group.name || state.plan.value?.name}</h3>
            <div class="nbg-flow">
              {group.stages.map((stage, j) => (
                <div class="nbg-step" key={stage.valueKey}>
                  {i + j > 0 && <ArrowColumn />}
                  <StageView
                    network={network}
                    stage={stage}
                    mosaic={null}
                    gap={gap}
                    height={STAGE_SIDE}
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

/** Runs of consecutive stages in the same module. */
export function moduleGroups(stages: readonly Stage[]): { name: string; stages: Stage[] }[] {
  const groups: { name: string; stages: Stage[] }[] = [];
  for (const stage of stages) {
    const group = groups.at(-1);
    if (group !== undefined && group.name === stage.groupModule) group.stages.push(stage);
    else groups.push({ name: stage.groupModule, stages: [stage] });
  }
  return groups;
}
