/**
 * The page of `chat-service.ts`, for `useChat` of the AI SDK 6:
 *
 *     const chat = await openChat(location.origin, id, (init) => new Chat(init)); // `Chat` of @ai-sdk/react
 *     const { messages, sendMessage, regenerate, stop } = useChat({ chat, resume: true });
 *     const stopTurn = () => Promise.all([stop(), fetch(`/api/chat/${id}/stop`, { method: 'POST' })]);
 */
import { type AbstractChat, type ChatInit, DefaultChatTransport, type UIMessage } from 'ai';

type Chat = AbstractChat<UIMessage>;

/** Loads a chat. After a lost connection it connects again every `retryMs`, until it has the answer. */
export async function openChat<C extends Chat>(
  url: string,
  id: string,
  create: (init: ChatInit<UIMessage>) => C,
  retryMs = 1_000,
): Promise<C> {
  const api = `${url}/api/chat`;
  const messages = (await (await fetch(`${api}/${id}`)).json()) as UIMessage[];
  const chat: C = create({
    id,
    messages,
    transport: new DefaultChatTransport({
      api,
      // The turn at work; after its end, the answer to the message that has none in the page.
      prepareReconnectToStreamRequest: () => {
        const last = chat.messages.at(-1);
        return { api: `${api}/${id}/stream${last?.role === 'user' ? `?message=${last.id}` : ''}` };
      },
    }),
    // `fetch` reports a lost connection as a `TypeError`. A turn that failed is another error, and is not tried again.
    onError: (error) => {
      if (error instanceof TypeError) setTimeout(() => void reconnect(chat), retryMs);
    },
  });
  return chat;
}

async function reconnect(chat: Chat): Promise<void> {
  // The stream brings the whole answer, so the page drops the half that it has.
  if (chat.messages.at(-1)?.role === 'assistant') chat.messages = chat.messages.slice(0, -1);
  await chat.resumeStream();
  const last = chat.messages.at(-1);
  if (chat.status !== 'ready' || last?.role !== 'user') return;
  // The message did not arrive, and is sent again. If it did, its id is a known key, and adds nothing.
  chat.messages = chat.messages.slice(0, -1);
  await chat.sendMessage(last);
}
