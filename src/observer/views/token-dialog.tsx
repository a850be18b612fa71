/** A dialog that asks for the token of a server that requires one. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Modal } from './modal.tsx';

/** See the head of the file. */
export function TokenDialog({ onToken }: { readonly onToken: (token: string) => void }): JSX.Element {
  const [token, setToken] = useState('');
  return (
    <Modal label="The server asks for a token" onClose={undefined}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          if (token.trim() !== '') onToken(token.trim());
        }}
      >
        <h2>The server asks for a token</h2>
        <p>
          The one that <code>troupe serve --token</code> was started with. It is kept until this tab is closed.
        </p>
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="off"
          value={token}
          onInput={(event) => setToken(event.currentTarget.value)}
        />
        <div class="form-end">
          <button type="submit" class="primary" disabled={token.trim() === ''}>
            Connect
          </button>
        </div>
      </form>
    </Modal>
  );
}
