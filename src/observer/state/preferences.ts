/** A person's choices for the page itself, kept in the browser. The page also works in a browser that keeps nothing. */
import { type Signal, signal } from '@preact/signals';
import { VIEW_MODES, type ViewMode } from '../model/message-view.ts';

/** Light, dark, or the theme of the system. */
export type Theme = 'system' | 'light' | 'dark';

const THEMES: readonly Theme[] = ['system', 'light', 'dark'];

/** Choices that outlive the page. */
export interface Preferences {
  readonly theme: Signal<Theme>;
  readonly mode: Signal<ViewMode>;
  /** Selects the next of the three themes. */
  turnTheme(): void;
  setMode(mode: ViewMode): void;
}

/** The preferences of this browser, applied to the document from now on. */
export function createPreferences(): Preferences {
  const theme = signal<Theme>(oneOf(THEMES, read('theme')) ?? 'system');
  const mode = signal<ViewMode>(oneOf(VIEW_MODES, read('mode')) ?? 'verbose');
  theme.subscribe((value) => {
    if (value === 'system') delete document.documentElement.dataset['theme'];
    else document.documentElement.dataset['theme'] = value;
  });
  return {
    theme,
    mode,
    turnTheme() {
      theme.value = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? 'system';
      write('theme', theme.value);
    },
    setMode(value) {
      mode.value = value;
      write('mode', value);
    },
  };
}

/**
 * The token of this tab. It comes from the address (`#token=`), and is then removed from the address. After a reload it
 * comes from this tab's store.
 */
export function readToken(): string | undefined {
  const given = /[#&]token=([^&]*)/u.exec(location.hash)?.[1];
  if (given === undefined) return fromStore(() => sessionStorage.getItem('troupe.token')) ?? undefined;
  const token = decodeURIComponent(given);
  history.replaceState(null, '', `${location.pathname}${location.search}`);
  keepToken(token);
  return token;
}

/** Keeps the token until the tab is closed. */
export function keepToken(token: string): void {
  fromStore(() => sessionStorage.setItem('troupe.token', token));
}

function read(name: string): string | undefined {
  return fromStore(() => localStorage.getItem(`troupe.${name}`)) ?? undefined;
}

function write(name: string, value: string): void {
  fromStore(() => localStorage.setItem(`troupe.${name}`, value));
}

/** Uses a store of the browser. If the browser refuses access, a choice lasts only until the page is closed. */
function fromStore<T>(use: () => T): T | undefined {
  try {
    return use();
  } catch {
    return undefined;
  }
}

function oneOf<T extends string>(values: readonly T[], value: string | undefined): T | undefined {
  return values.find((each) => each === value);
}
