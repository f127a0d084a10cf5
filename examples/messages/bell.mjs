// A service that asks Timebell for messages later, and gets them. It knows nothing but AMQP.
//
//   node bell.mjs listen
//   node bell.mjs ask ID SECONDS [TEXT]
//   node bell.mjs every ID SECONDS TIMES [TEXT]
//   node bell.mjs cancel ID
import amqp from "amqplib";

const connection = await amqp.connect(process.env.BROKER_URL ?? "amqp://guest:guest@127.0.0.1:5672/");
const channel = await connection.createConfirmChannel();
const [verb, id, seconds, ...rest] = process.argv.slice(2);

// Hands one message to Timebell's exchange, and waits until the broker has it.
async function publish(key, message) {
  const body = Buffer.from(JSON.stringify(message));
  channel.publish("timebell", key, body, { contentType: "application/json", persistent: true });
  await channel.waitForConfirms();
  await connection.close();
}

// Prints each message that is due, and lets the broker forget it then. After a crash the same message may come twice:
// its message_id is the same both times. A real service keeps those in its database.
async function listen() {
  const seen = new Set();
  await channel.prefetch(50);
  await channel.consume("timebell.due", (message) => {
    const due = JSON.parse(message.content.toString());
    if (!seen.has(message.properties.messageId)) {
      seen.add(message.properties.messageId);
      console.log(due.id, due.payload?.text ?? "");
    }
    channel.ack(message);
  });
  console.log("listening");
}

if (verb === "listen") {
  await listen();
} else if (verb === "ask") {
  const at = new Date(Date.now() + seconds * 1000).toISOString();
  await publish("schedule.request", { type: "ScheduleRequest", id, at, payload: { text: rest.join(" ") } });
} else if (verb === "every") {
  const [times, ...text] = rest;
  const rrule = `FREQ=SECONDLY;INTERVAL=${seconds};COUNT=${times}`;
  await publish("schedule.request", { type: "ScheduleRequest", id, rrule, payload: { text: text.join(" ") } });
} else if (verb === "cancel") {
  await publish("schedule.cancel", { type: "ScheduleCancel", id });
} else {
  console.error("say listen, ask, every or cancel");
  await connection.close();
}
