/** Entry of a tool thread. See `tool-host.ts`. */
import { serveTasks, type TaskReply } from '../../threads/task-thread.ts';
import { serveTools } from './tool-host.ts';

const serve: (task: unknown) => Promise<TaskReply> = serveTasks((line) => serveTools(line));
export default serve;
