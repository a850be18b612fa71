/** A dialog over the page. The browser keeps the focus inside it and restores the focus afterwards. */
import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

/** See the head of the file. `onClose`: called on Escape; undefined: the dialog cannot be closed. */
export function Modal(props: {
  readonly label: string;
  readonly onClose: (() => void) | undefined;
  readonly children: ComponentChildren;
}): JSX.Element {
  const { label, onClose, children } = props;
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => {
    const element = dialog.current;
    const before = document.activeElement;
    element?.showModal();
    return () => {
      element?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={dialog}
      aria-label={label}
      onCancel={(event) => {
        event.preventDefault();
        onClose?.();
      }}
    >
      {children}
    </dialog>
  );
}
