// The icon of a source kind.
import { PathIcon } from "../../../views/icons.tsx";
import type { Source } from "../records.ts";
import { getSourceKind } from "../source_kinds.ts";

export const KindIcon = ({ kind }: Pick<Source, "kind">) => {
  const { icon, iconStroke } = getSourceKind({ kind });
  return <PathIcon d={icon} strokeWidth={iconStroke} />;
};
