// The weights of a layer as pictures: kernels, rows of a linear layer, scale and shift of a normalisation.
import type { Network, Stage } from "../../network/network.ts";
import { useViews } from "../context.ts";
import { kernelsOf, parametersOf } from "../layer_weights.ts";
import { KernelTable } from "./kernel_table.tsx";
import { ParameterBars } from "./parameter_bars.tsx";

/** The Filters view: the weights of every layer of the stage. */
export function Filters(props: { network: Network; stage: Stage; width: number }) {
  const { network, stage, width } = props;
  const plan = useViews().state.plan.value;
  if (plan === null) return null;
  return (
    <div class="nbg-filters">
      {stage.layers.map((layer) => {
        const kernels = kernelsOf(plan, network, layer);
        const parameters = parametersOf(plan, network, layer);
        const rest = parameters.filter((value) => value !== kernels?.weight);
        return (
          parameters.length > 0 && (
            <div key={layer.name} class="nbg-filters">
              {kernels !== null && <KernelTable kernels={kernels} width={width} />}
              {rest.map((value) => (
                <ParameterBars key={value.key} layer={layer} value={value} width={width} />
              ))}
            </div>
          )
        );
      })}
    </div>
  );
}
