// Keyboard shortcuts help, opened by `?` or by the button in the status line.

import { useViews } from "./context.ts";
import { KeyList } from "./help/key_list.tsx";

export function KeyHelp() {
  const { isHelpOpen } = useViews();
  return isHelpOpen.value ? <KeyList /> : null;
}

export function KeyHelpButton() {
  const { isHelpOpen } = useViews();
  return (
    <button
      type="button"
      class="nbg-second nbg-underlined"
      aria-expanded={isHelpOpen.value}
      onClick={() => {
        isHelpOpen.value = !isHelpOpen.value;
      }}
    >
      Keys
    </button>
  );
}
