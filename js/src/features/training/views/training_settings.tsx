// Settings that require Python to recompile the training: the batch size, and the layers to train.
import { useEffect, useId, useRef, useState } from "preact/hooks";
import { useViews } from "../../../views/context.ts";
import { DownIcon } from "../../../views/icons.tsx";
import type { TrainingConfig, TrainingRecord } from "../records.ts";
import { batchSize, layersText, lossName, trainableGroups } from "./training_text.ts";

interface TrainingSettingsProps {
  record: TrainingRecord;
  config: TrainingConfig;
  hasEnded: boolean;
  change: (part: Partial<TrainingRecord>) => void;
}

/** A button that summarises the training settings and opens a form to change them. */
export function TrainingSettings(props: TrainingSettingsProps) {
  const { record, config, hasEnded } = props;
  const { root } = useViews();
  const [open, setOpen] = useState(false);
  const place = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const id = useId();
  const words = [
    lossName(config),
    config.optimizer,
    `batch ${batchSize(config, record)}`,
    layersText(trainableGroups(config), record.frozen),
  ].join(" · ");
  useEffect(() => {
    if (!open) return;
    const press = (event: Event): void => {
      if (!place.current?.contains(event.composedPath()[0] as Node)) setOpen(false);
    };
    root.addEventListener("pointerdown", press);
    return () => root.removeEventListener("pointerdown", press);
  }, [open, root]);
  return (
    <div
      class="nbg-train-settings"
      role="group"
      aria-label="Training settings"
      ref={place}
      onKeyDown={(event) => {
        if (event.key !== "Escape" || !open) return;
        event.stopPropagation();
        setOpen(false);
        button.current?.focus();
      }}
    >
      <button
        type="button"
        class="nbg-button"
        ref={button}
        aria-expanded={open}
        aria-controls={open ? id : undefined}
        onClick={() => setOpen(!open)}
      >
        <span>{words}</span>
        <DownIcon />
      </button>
      {open && (
        <div class="nbg-train-popover" id={id} role="group" aria-label="Batch and layers">
          <SettingsForm {...props} hasEnded={hasEnded} />
        </div>
      )}
    </div>
  );
}

function SettingsForm({ record, config, hasEnded, change }: TrainingSettingsProps) {
  const { state } = useViews();
  const host = state.trainingHost.value;
  const why = hasEnded
    ? "The training has ended."
    : host?.canRecompile
      ? ""
      : "Changing the batch size or the trained layers requires Python.";
  const off = why !== "";
  const groups = trainableGroups(config);
  const learns = (parameters: readonly string[]): boolean =>
    parameters.some((one) => !record.frozen.includes(one));
  const learning = groups.filter(({ parameters }) => learns(parameters)).length;
  const batch = batchSize(config, record);
  // The view re-renders continually during training: keep the text being typed.
  const [draft, setDraft] = useState<string | null>(null);
  return (
    <>
      {off && <p class="nbg-second">{why}</p>}
      <label class="nbg-labelled">
        <span>Batch size</span>
        <input
          type="number"
          class="nbg-slider-number"
          min={1}
          max={config.example_count}
          step={1}
          value={draft ?? batch}
          disabled={off}
          onInput={(event) => setDraft(event.currentTarget.value)}
          onChange={(event) => {
            const wanted = Math.round(Number(event.currentTarget.value));
            setDraft(null);
            if (wanted >= 1 && wanted <= config.example_count && wanted !== batch)
              change({ batch_size: wanted });
          }}
          onBlur={() => setDraft(null)}
        />
        <span class="nbg-second">of {config.example_count}</span>
      </label>
      <fieldset disabled={off}>
        <legend>Trained layers</legend>
        {groups.map(({ name, parameters }) => {
          const on = learns(parameters);
          return (
            <label key={name}>
              <input
                type="checkbox"
                checked={on}
                // At least one layer must be trained.
                disabled={on && learning === 1}
                onChange={() => {
                  const rest = record.frozen.filter((one) => !parameters.includes(one));
                  change({ frozen: on ? [...rest, ...parameters] : rest });
                }}
              />
              <span>{name}</span>
              {!on && <span class="nbg-second">frozen</span>}
            </label>
          );
        })}
      </fieldset>
    </>
  );
}
