// A badge at the layer whose values first became NaN or infinite in the step that stopped a training.
import type { Layer } from "../../../plan/schema.ts";
import { useViews } from "../../../views/context.ts";

export function NanBadge({ layer, layers }: { layer: string; layers?: readonly Layer[] }) {
  const { network, state } = useViews();
  const wrong = state.training.value?.failed_layer ?? "";
  if (wrong === "") return null;
  const stage =
    state.tab.value === "network"
      ? network.value?.stages.find(({ layers }) => layers.some(({ name }) => name === layer))
      : undefined;
  const all = layers ?? stage?.layers;
  if (wrong !== layer && !all?.some(({ name }) => name === wrong)) return null;
  const words = `training stopped: ${wrong} was the first with NaN or infinite values`;
  return (
    <span class="nbg-nan-badge" role="img" aria-label={words} title={words} data-wrong={layer}>
      !
    </span>
  );
}
